"""A run whose chief is lost is continued by another host, its standby:

1. `terms.Watch.look` every lease.RENEW seconds, until `Watch.decision` is `claim`;
2. `Terms.claim` of the last term; `held.begin` in the run's folder, with the time before the claim;
3. `restore`, a process that ends when the run's time is over;
4. start the supervisor in the run's folder: it continues the term, with its seconds and attempts.
   Nobody takes the run over from the host that has the last term, so it does not beat.
"""
