"""Small programs that try a host's runtime: GPUs, the Horovod wheel, links."""
