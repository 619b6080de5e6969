"""The same load from several processes or machines, through locust: master, workers, and depthgate's side."""
