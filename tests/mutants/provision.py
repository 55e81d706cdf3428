"""Faults in facts, plans, the preparation of hosts, data, and the documents."""

from __future__ import annotations

from . import Mutant

INSTALL = "tests/bootstrap/provision/test_install.py"
FIRST_CONTACT = "tests/bootstrap/facts/test_first_contact.py"
TRANSFER = "tests/bootstrap/data/test_data_transfer.py"
SOURCES = "tests/bootstrap/provision/requirements/test_sources.py"
REQUIREMENTS = "tests/bootstrap/provision/requirements/test_lines.py"
PROXY = "tests/bootstrap/provision/test_apt_proxy.py"
SYSTEM_SCRIPT = "tests/bootstrap/provision/test_system_script.py"

MUTANTS = [
    Mutant(
        what="uv runs the build code of a package on the user's computer",
        file="bootstrap/provision/uv.py",
        old='"--quiet", "--only-binary", ":all:"]',
        new='"--quiet"]',
        caught_by=(f"{REQUIREMENTS}::test_uv_builds_nothing_here",),
    ),
    Mutant(
        what="a line of --requirements lets uv build an editable package",
        file="bootstrap/provision/requirements/lines.py",
        old="elif option and option[1] in _INDEX_OPTIONS:",
        new="elif option:",
        caught_by=(f"{REQUIREMENTS}::test_what_would_be_built_here_is_refused_by_its_line",),
    ),
    Mutant(
        what="a repository of --requirements is fetched from a file of this computer",
        file="bootstrap/inventory/git.py",
        old='"protocol.allow=never", *settings]',
        new="*settings]",
        caught_by=(f"{SOURCES}::test_git_uses_no_other_transport_than_those_of_the_line",),
    ),
    Mutant(
        what="a source is installed though what it requires is not there",
        file="bootstrap/provision/apply.py",
        old="if unmet := sorted(self._unmet(step_host) - before):",
        new="if unmet := sorted(self._unmet(step_host) - self._unmet(step_host)):",
        caught_by=(f"{SOURCES}::test_a_requirement_that_is_not_there_is_named",),
    ),
    Mutant(
        what="a Horovod wheel whose test failed on its builder is installed on other hosts later",
        file="bootstrap/provision/apply.py",
        old='if error.outcomes.get(self.cluster.builder) == "ok":',
        new="if error.outcomes.get(self.cluster.builder):",
        caught_by=(f"{INSTALL}::test_a_wheel_is_kept_only_when_its_builder_is_ready",),
    ),
    Mutant(
        what="the wheel that one cluster's host compiled is run by the hosts of another cluster",
        file="bootstrap/plan/cluster.py",
        old="(stack or keys[builder])",
        new="(stack or builder)",
        caught_by=(
            f"{INSTALL}::test_a_wheel_is_installed_by_whoever_built_it_and_one_of_this_computer_by_all",
        ),
    ),
    Mutant(
        what="a wheel that was damaged in the bucket is installed on every host",
        file="bootstrap/provision/wheel_store.py",
        old="if hashlib.sha256(data).hexdigest() != digest:",
        new="if not data:",
        caught_by=(
            "tests/bootstrap/provision/test_wheel_store.py"
            "::test_a_wheel_that_was_changed_is_not_used_and_makes_room",
        ),
    ),
    Mutant(
        what="a host without outbound access reaches the network of this computer through apt",
        file="bootstrap/provision/apt_upstream.py",
        old="return not (ip.is_global or any(",
        new="return not (True or any(",
        caught_by=(
            f"{PROXY}::test_only_public_addresses_are_outward_and_no_inward_one_of_a_cloud",
        ),
    ),
    Mutant(
        what="a mirror whose name resolves otherwise after the check leads into this network",
        file="bootstrap/provision/apt_cache.py",
        old="kind = HTTPConnection if request.has_proxy() else _CheckedConnection",
        new="kind = HTTPConnection",
        caught_by=(f"{PROXY}::test_a_name_whose_address_changes_after_the_check_leads_nowhere",),
    ),
    Mutant(
        what="an installation that was interrupted leaves unattended upgrades off for good",
        file="bootstrap/host/scripts/system_changes.sh",
        old="""  trap '' TERM INT HUP
  timers_on
""",
        new="""  trap '' TERM INT HUP
""",
        caught_by=(SYSTEM_SCRIPT,),
    ),
    Mutant(
        what="a host that has not gone down counts as rebooted, and its driver is not loaded",
        file="bootstrap/provision/reboot.py",
        old="if session.sh(BOOT, silence=30).strip() != before:",
        new="if session.sh(BOOT, silence=30):",
        caught_by=(SYSTEM_SCRIPT,),
    ),
    Mutant(
        what="the process of another user, who claims to be a run, makes a host busy",
        file="bootstrap/facts/marked.py",
        old='[ -O "${f%/environ}" ] && set',
        new="set",
        caught_by=(f"{FIRST_CONTACT}::test_a_process_of_another_user_makes_no_host_busy",),
    ),
    Mutant(
        what="packages are installed on a host whose way out nobody has tested",
        file="bootstrap/provision/survey.py",
        old="if not decide.installs(cluster):",
        new="if True:",
        caught_by=("tests/bootstrap/provision/test_survey.py",),
    ),
    Mutant(
        what="the check of a replaced host is answered by that of the run's start",
        file="bootstrap/runs/start.py",
        old="then rm login_check.done; else",
        new="then :; else",
        caught_by=(
            "tests/bootstrap/runs/test_login_check.py::"
            "test_the_second_check_of_a_run_is_not_answered_by_the_first",
        ),
    ),
    Mutant(
        what="an environment whose installation was interrupted counts as complete",
        file="bootstrap/facts/host.py",
        old='[ "$v" = $d ] && echo $d\n',
        new="[ -e $d/.ok ] && echo $d\n",
        caught_by=(f"{FIRST_CONTACT}::test_what_is_under_the_home_is_found",),
    ),
    Mutant(
        what="an nvidia-smi that hangs makes the whole host unreachable",
        file="bootstrap/facts/gpu.py",
        old="} & } | within 45 cat); }",
        new="} & } | cat); }",
        caught_by=(
            f"{FIRST_CONTACT}::test_an_nvidia_smi_that_nothing_ends_leaves_the_other_facts_in_time",
        ),
    ),
    Mutant(
        what="a run starts on a V100 whose driver does not support it",
        file="bootstrap/plan/drivers.py",
        old='if has_volta(facts) and (driver.branch > BRANCH or driver.flavour == "open"):',
        new='if has_volta(facts) and driver.flavour == "open":',
        caught_by=("tests/bootstrap/plan/test_drivers.py",),
    ),
    Mutant(
        what="a runtime is sent to a host that can download it, and not to one that cannot",
        file="bootstrap/plan/downloads.py",
        old="access = facts.egress.apt if step.name in OF_APT else facts.egress.index",
        new="access = facts.egress.index if step.name in OF_APT else facts.egress.apt",
        caught_by=("tests/bootstrap/plan/test_downloads.py",),
    ),
    Mutant(
        what="anybody who has the cluster's key may log in from anywhere",
        file="bootstrap/plan/hostfile.py",
        old="return f'from=\"{chief_address}\",restrict {kind} {data} railhead:{cluster}'",
        new="return f'restrict {kind} {data} railhead:{cluster}'",
        caught_by=("tests/bootstrap/plan/test_hostfile.py",),
    ),
    Mutant(
        what="a proxy's password is in the message of a failed installation",
        file="bootstrap/provision/host_step.py",
        old="            tail = self.cluster.internet.without_password(tail)\n",
        new="",
        caught_by=(f"{INSTALL}::test_a_failure_through_a_proxy_shows_no_password",),
    ),
    Mutant(
        what="a host without the manifest of its shards cannot read its share of the data",
        file="bootstrap/data/folders.py",
        old="shared = tuple(file for file in self.files if is_manifest(file.path))",
        new="shared: tuple[DataFile, ...] = ()",
        caught_by=("tests/bootstrap/data/test_data_folders.py",),
    ),
    Mutant(
        what="data that was changed on a host and has its old size is trained on",
        file="bootstrap/data/send.py",
        old="    if wrong := session.send_stream(request, content).wrong:",
        new="    if (wrong := session.send_stream(request, content).wrong) and False:",
        caught_by=(
            f"{TRANSFER}::test_a_file_that_changes_while_it_is_sent_is_named_and_nothing_appears",
        ),
    ),
    Mutant(
        what="a comma in a path makes the data of another folder the data of the run",
        file="bootstrap/data/spec.py",
        old="        if group is None:\n            break\n",
        new="        if group is None:\n            uri = rest\n            break\n",
        caught_by=("tests/bootstrap/data/test_data_spec.py",),
    ),
    Mutant(
        what="a document in which a number is true or false is accepted",
        file="railhead/documents/rule.py",
        old=" or (isinstance(value, bool) and is_number):",
        new=":",
        caught_by=("tests/documents/test_codec.py",),
    ),
    Mutant(
        what="a host that answers the same port for two ranks blocks the start of a run",
        file="railhead/documents/agent/network.py",
        old="return len({*reply.ports}) == len(reply.ports) == self.count",
        new="return len(reply.ports) == self.count",
        caught_by=("tests/documents/test_agent_answers.py",),
    ),
    Mutant(
        what="a rank on the second host of a run gets the role and the address of another host",
        file="railhead/documents/runs/run.py",
        old="return bisect(self.first_ranks, rank) - 1",
        new="return bisect(self.first_ranks, rank - 1) - 1",
        caught_by=("tests/documents/test_run_files.py",),
    ),
    Mutant(
        what="a wheel without code for T4 is recorded as one that has been checked",
        file="bootstrap/facts/fatbin.py",
        old="        offset += header + size\n",
        new="        offset += size\n",
        caught_by=("tests/bootstrap/facts/test_fatbin.py",),
    ),
    Mutant(
        what="a package that was replaced on the index is installed on the hosts",
        file="bootstrap/provision/apply.py",
        old='"sync", "--require-hashes", ',
        new='"sync", ',
        caught_by=(
            "tests/bootstrap/provision/test_delivery.py"
            "::test_a_host_installs_from_what_the_plan_sends_it",
        ),
    ),
]
