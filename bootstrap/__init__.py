"""The control side: what `fab` does with the hosts of a cluster, over SSH.

The folders tell the story of a run, in this order:
* errors       what can go wrong, its exit code, and what to type next
* console      output for people: lines, live lines, text formatting
* inventory    which hosts: the host list, the cluster document, the Pulumi stack, saved state
* untrusted    checks of what a host sends: names, archives, manifests
* facts        what is on a host: read by POSIX sh, parsed here, nothing is written
* plan         what has to be done and why; pure
* ssh          connections, host keys, jump hosts, port forwards, file transfer
* clouds       AWS, Google Cloud and local hosts: machines, buckets, costs
* costs        when machines ran, and what they cost
* data         the data of a run: what `--data` names, and how it reaches the hosts
* provision    makes hosts ready: system packages, drivers, runtimes, Horovod
* runs         starts a run, follows it, cancels it, fetches its results
* lifecycle    starts and stops machines, teardown, destroy, the receipt
* evaluation   evaluates the model of a run
* report       lists and compares runs; pages in HTML
* health       checks of GPUs, links, clocks and disks before a long run
* doctor       checks of this computer, the credentials and the cloud before `fab up`
* project      the files of a project of the user
* leaks        what has Railhead's tags in the clouds and belongs to no living stack
* serving      endpoints: deploys a model, sends samples to it, ends it
* workflows    the steps of each command
* cli          tasks, and the hosts that a command is about
* interface    `import railhead`

A folder imports those above it, `gpu_tools` those above `workflows`. `host` is sent to hosts.
"""
