"""What a load can be driven against: the embedded engine, or any OpenAI-compatible server."""
