"""One verb a file: SUMMARY, EXAMPLE, configure(parser), main(args) -> exit code. Heavy imports inside."""
