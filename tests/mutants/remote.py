"""Faults in what runs on hosts, in the connections to them, and in endpoints."""

from __future__ import annotations

from . import Mutant

RANK = "bootstrap/remote/rank"
RUN = "bootstrap/remote/run"
ATTEMPTS = "bootstrap/remote/attempts"
AGENT = "bootstrap/remote/agent"
SERVE = "bootstrap/remote/serve"
TESTS = "tests/bootstrap/remote"
STALL = "bootstrap/remote/stall"
MUTANTS = [
    Mutant(
        what="a rank that writes a file for minutes ends the run as one that hangs",
        file=f"{STALL}/diagnosis.py",
        old="works = works or uses >= IDLE or sample.bytes != 0",
        new="works = works or uses >= IDLE",
        caught_by=(f"{TESTS}/stall/test_diagnosis.py",),
    ),
    Mutant(
        what="a supervisor that was suspended takes its own absence for a stall",
        file=f"{STALL}/progress.py",
        old="min(now - self.looked, AT_MOST)",
        new="now - self.looked",
        caught_by=(f"{TESTS}/stall/test_progress.py",),
    ),
    Mutant(
        what="what ranks do while they are ended replaces why they were",
        file=f"{STALL}/watch.py",
        old="        if self.ends_run:\n            return  # its",
        new="        if False:\n            return  # its",
        caught_by=(f"{TESTS}/stall/test_watch.py",),
    ),
    Mutant(
        what="a run that has trained for minutes starts again with the other Keras",
        file=f"{ATTEMPTS}/keras_errors.py",
        old="begun = trace.stepped or trace.files",
        new="begun = trace.files",
        caught_by=(f"{TESTS}/attempts/test_keras_errors.py",),
    ),
    Mutant(
        what="the second attempt finds what the first one has written",
        file=f"{ATTEMPTS}/prepare.py",
        old="    files.drop_others(work, {file.path for file in bundle})\n",
        new="",
        caught_by=(f"{TESTS}/attempts/test_other_keras.py", "-k", "as_before"),
    ),
    Mutant(
        what="a bug is tried again until there are no retries left",
        file=f"{ATTEMPTS}/restarts.py",
        old="if is_bug and self.error == (_key(ended.result.cause), point):",
        new="if False:",
        caught_by=(f"{TESTS}/attempts/test_restarts.py", "-k", "bug_is_tried"),
    ),
    Mutant(
        what="a step that was repeated is twice in the curves",
        file="bootstrap/untrusted/records.py",
        old="return mine > last",
        new="return False",
        caught_by=("tests/bootstrap/runs/test_retries.py",),
    ),
    Mutant(
        what="the workers of an elastic run keep their old numbers",
        file=f"{ATTEMPTS}/elastic.py",
        old="Role(role.type, numbers[role.type])",
        new="role",
        caught_by=(f"{TESTS}/attempts/test_elastic.py",),
    ),
    Mutant(
        what="--keras auto patches a Keras that nobody has tried",
        file="bootstrap/remote/keras_patches/patch.py",
        old="self.also_unknown or is_known(version)",
        new="True",
        caught_by=(f"{TESTS}/keras_patches/test_patch.py",),
    ),
    Mutant(
        what="old checkpoints are kept for a week: a thousand gigabytes of a run",
        file="bootstrap/remote/run/live_upload.py",
        old="self.bucket.put(file, name, sha256, short_lived=True)",
        new="self.bucket.put(file, name, sha256)",
        caught_by=("tests/stacks/test_old_checkpoints.py",),
    ),
    Mutant(
        what="hosts of a stack from before this version cannot upload checkpoints",
        file="bootstrap/remote/buckets/s3.py",
        old='"AccessDenied"',
        new='"NoSuchKey"',
        caught_by=("tests/bootstrap/remote/buckets/test_bucket.py", "-k", "tags"),
    ),
    Mutant(
        what="text that a rank prints passes for the output of another rank",
        file=f"{RANK}/rank.py",
        old=r'.replace(b"]", b"]\x1f")',
        new="",
        caught_by=(f"{TESTS}/run/test_forged_output.py",),
    ),
    Mutant(
        what="the supervisor takes the end of a rank for text, and its silent host for a lost one",
        file=f"{RUN}/mpirun_output.py",
        old=r'ENDED = b"\x1c"',
        new=r'ENDED = b"\x1b"',
        caught_by=(f"{TESTS}/run/test_mpirun_output.py",),
    ),
    Mutant(
        what="a rank leaves its secrets on the host",
        file=f"{RANK}/rank.py",
        old="        os.remove(secrets)  # each rank has its own\n",
        new="",
        caught_by=(f"{TESTS}/rank/test_rank.py::test_what_a_program_receives",),
    ),
    Mutant(
        what="a host with a lossy network is taken for one that is cut off, and its run ends",
        file=f"{RANK}/rank_link.py",
        old="if 0 < self.tries >= before",
        new="if self.tries",
        caught_by=(f"{TESTS}/rank/test_rank_link.py",),
    ),
    Mutant(
        what="a training whose chief is killed is taken for one that went well",
        file=f"{RUN}/supervisor.py",
        old="exit_code=code if code >= 0 else 128 - code",
        new="exit_code=code",
        caught_by=(
            f"{TESTS}/run/test_supervisor.py::test_the_exit_code_of_a_killed_mpirun_is_that_of_a_shell",
        ),
    ),
    Mutant(
        what="a full disk loses the result of a run",
        file="bootstrap/remote/attempts/run_state.py",
        old='            os.remove(self.path("reserve"))\n',
        new="            pass\n",
        caught_by=(f"{TESTS}/run/test_supervisor.py::test_a_full_disk_does_not_lose_the_end",),
    ),
    Mutant(
        what="`fab cancel` kills the supervisor before it has written the result",
        file=f"{RUN}/end_processes.py",
        old="if name == FINISHING:",
        new="if False:",
        caught_by=(
            f"{TESTS}/run/test_run_end.py::test_cancel_while_results_are_hashed_leaves_the_supervisor_to_stop_the_machines",
        ),
    ),
    Mutant(
        what="`fab cancel` of run r1 ends the processes of run r10",
        file=f"{RUN}/end_processes.py",
        old='if run and run_id in (run, "all")]',
        new='if run_id == "all" and run or run.startswith(run_id)]',
        caught_by=(f"{TESTS}/run/test_end_processes.py::test_anybody_elses_process_is_untouched",),
    ),
    Mutant(
        what="the chief stops before it has stopped the other machines",
        file=f"{RUN}/stop_policy.py",
        old="return [*hosts[1:], hosts[0]]",
        new="return hosts",
        caught_by=(f"{TESTS}/run/test_stop_policy.py",),
    ),
    Mutant(
        what="the machines stop while somebody fetches the results",
        file=f"{RUN}/stop_policy.py",
        old="if fetch is not None and situation.now < fetch:",
        new="if False:",
        caught_by=(f"{TESTS}/run/test_stop_policy.py",),
    ),
    Mutant(
        what="an upload overwrites a checkpoint that the manifest in the bucket names",
        file=f"{RUN}/live_upload.py",
        old="if n not in taken)",
        new="if n not in set())",
        caught_by=(f"{TESTS}/run/test_live_upload.py",),
    ),
    Mutant(
        what="the end of a log that was rotated meanwhile is not uploaded",
        file=f"{RUN}/live/logs.py",
        old="yield older, progress.position if same else 0",
        new="pass",
        caught_by=(f"{TESTS}/run/test_live_logs.py", "-k", "written"),
    ),
    Mutant(
        what="a checkpoint that the program is writing is uploaded",
        file=f"{RUN}/live_upload.py",
        old="return not times or time.time() - max(times) / 1e9 >= SETTLED",
        new="return True",
        caught_by=(f"{TESTS}/run/test_live_upload.py",),
    ),
    Mutant(
        what="a link among the results makes the agent send any file of the host",
        file=f"{RUN}/manifest.py",
        old="os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC",
        new="os.O_NONBLOCK | os.O_CLOEXEC",
        caught_by=(f"{TESTS}/run/test_run_manifest.py",),
    ),
    Mutant(
        what="files that no longer belong to the program stay in its folder through a link",
        file=f"{AGENT}/files.py",
        old="for name in [*names, *links]:",
        new="for name in names:",
        caught_by=(f"{TESTS}/agent/test_agent_files.py::test_tree",),
    ),
    Mutant(
        what="a blob that was damaged on its way becomes a file of the program",
        file=f"{AGENT}/files.py",
        old="if hashlib.sha256(data).hexdigest() != member.name:",
        new="if False:",
        caught_by=(
            f"{TESTS}/agent/test_agent_files.py::test_a_blob_with_another_content_is_refused",
        ),
    ),
    Mutant(
        what="a process that a command left behind keeps `fab` waiting for ever",
        file=f"{AGENT}/commands.py",
        old="if data is None or now > last:",
        new="if False:",
        caught_by=(
            f"{TESTS}/agent/test_agent_commands.py::test_what_a_command_leaves_behind_does_not_hold_the_answer",
        ),
    ),
    Mutant(
        what="Google stores an upload that was damaged on its way",
        file="bootstrap/remote/buckets/gcs.py",
        old='"md5Hash": digest, ',
        new="",
        caught_by=(f"{TESTS}/buckets",),
    ),
    Mutant(
        what="an endpoint that ends stops a machine that still stops the others of its run",
        file=f"{SERVE}/endpoint.py",
        old="if not free or run_is_closing():",
        new="if not free:",
        caught_by=(
            f"{TESTS}/serve/test_endpoint_supervisor.py::test_the_machine_is_left_to_a_run_that_still_stops_machines",
        ),
    ),
    Mutant(
        what="a web page of another site can call an endpoint of TensorFlow Serving",
        file=f"{SERVE}/http_relay.py",
        old="if why := local_requests.refusal(headers.get):",
        new='if why := "":',
        caught_by=(f"{TESTS}/serve/test_http_relay.py",),
    ),
    Mutant(
        what="`fab undeploy` reports an endpoint as gone whose port is still open",
        file="bootstrap/serving/undeploy.py",
        old="if swept.left or (served and not free):",
        new="if swept.left:",
        caught_by=(
            f"{TESTS}/serve/test_endpoint_supervisor.py::test_an_endpoint_whose_port_is_still_open_is_not_gone",
        ),
    ),
    Mutant(
        what="an endpoint ends hours too early on a host whose clock is wrong",
        file="bootstrap/serving/deploy.py",
        old="until=clock_of(place.session) + seconds",
        new="until=datetime.now(timezone.utc).timestamp() + seconds",
        caught_by=("tests/bootstrap/serving/test_endpoints.py",),
    ),
    Mutant(
        what="the record of an endpoint gets a port that it does not have",
        file="bootstrap/serving/records.py",
        old="if find(endpoint.name) == endpoint:",
        new="if find(endpoint.name):",
        caught_by=("tests/bootstrap/serving/test_endpoints.py",),
    ),
    Mutant(
        what="a host whose key nobody has confirmed is accepted",
        file="bootstrap/ssh/host_keys.py",
        old="        raise UnknownHostKey(hostname, key)\n",
        new="        return\n",
        caught_by=(
            "tests/bootstrap/ssh/test_connect.py::test_an_unknown_key_is_refused_with_its_fingerprint_and_the_way_on",
        ),
    ),
    Mutant(
        what="a host that answers without end fills the memory of this computer",
        file="bootstrap/ssh/bounded_channel.py",
        old="_bounds.bytes:\n            raise TimeoutError\n",
        new="_bounds.bytes:\n            pass\n",
        caught_by=("tests/bootstrap/ssh/test_bounded_channel.py",),
    ),
    Mutant(
        what="a host sends more than was announced, and fills the disk of this computer",
        file="bootstrap/ssh/session.py",
        old="if missing > remaining:",
        new="if False:",
        caught_by=("tests/bootstrap/ssh/test_session.py::test_an_agent_that_lies_is_refused",),
    ),
    Mutant(
        what="a link out of the folder of a script sends any file of this computer",
        file="bootstrap/ssh/bundle_files.py",
        old="    if not target.is_relative_to(root):\n",
        new="    if False:\n",
        caught_by=("tests/bootstrap/ssh/test_bundle.py",),
    ),
    Mutant(
        what="results are written through a link in the folder of the results",
        file="bootstrap/untrusted/unpack.py",
        old="if folder.is_symlink() or not folder.is_dir():",
        new="if not folder.is_dir():",
        caught_by=("tests/bootstrap/untrusted/test_unpack.py",),
    ),
    Mutant(
        what="a document of millions of empty lists from a host fills the memory",
        file="bootstrap/untrusted/decode.py",
        old="if _marks(data) > MARKS and _marks(_without_strings(data)) > MARKS:",
        new="if False:",
        caught_by=("tests/bootstrap/untrusted/test_decode.py",),
    ),
]
