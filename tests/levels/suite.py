#!/usr/bin/python3 -B
"""suite.py - a part of the tests of the server at one level, with one server for all of them: a guest boots once.

    CORDON_TEST_LEVEL=microvm suite.py CORDON [FILE.TEST ...]

What is chosen shows each subject and most of the differences; the whole files run with `make check-levels`."""
import importlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
from harness import run_tests  # noqa: E402

CHOSEN = {
    "sessions": "defaults limits_are_set its_host_name_resolves env_metadata bad_bodies reason_expired reason_oom reason_killed",
    "executions": "wait argv cwd_env_user exit_codes timeout_ends_the_tree delete_ends_the_tree stdin signals odd_output background records",
    "server_files": "modes_owners_users errors aborted_upload too_much stat_links list_mkdir_move_remove path_rules hostile_tar watch diff",
    "pty": "it_is_a_terminal typing_and_echo resize control_characters a_raw_terminal_gets_control_characters raw_bytes much_input input_by_post",
    "ports": "the_port_of_the_door in_the_locked_profile after_a_restart who_asks_may_go",
    "secrets": "a_file a_socket a_placeholder a_locked_session its_time",
    "execution_secrets": "a_variable_of_one_execution a_file_of_one_execution what_is_refused",
    "limits": "nothing_is_told_without_reason memory processes disk inodes open_files time output",
    "pause": "pause_and_resume execution_time_stands_still idle_pause",
    "streams": "events_live binary attach_both_ways",
    "e2b_filesystem": "stat make_dir move list remove",
    "e2b_watch": "watch",
    "process_rpc": "echo environment input pty list",
    "redaction": "both_streams prompt_is_shown",
    "level_differences": None,  # all
}


def chosen():
    """The functions by the name FILE.TEST, in the order of the table."""
    found = {"KILLS": True}
    for file, names in CHOSEN.items():
        module = importlib.import_module(f"test_{file}")
        tests = [n[5:] for n in vars(module) if n.startswith("test_")] if names is None else names.split()
        for name in tests:
            found[f"test_{file}.{name}"] = getattr(module, f"test_{name}")
    return found


if __name__ == "__main__":
    from test_redaction import PATTERNS
    from test_process_rpc import LIMIT
    run_tests(chosen(), pool_size=1, file_max="50M", executions_max=8, session_timeout_max="7d", redact_patterns=PATTERNS,
              e2b_output_limit=LIMIT, output_limit_max="1G")
