/* verbs.h - the verbs of cordon-client, each in a file verb_*.c. pause, resume, reset, rm
 * and timeout are in verb_life.c, fork is in verb_snapshot.c, gc in verb_layers.c, limits and
 * inspect are in verb_node.c, cast is in verb_replay.c. */
#pragma once

#include "cmd/base/options.h"

extern const struct verb verb_create, verb_ls, verb_exec, verb_run, verb_attach, verb_cp, verb_logs,
	verb_watch, verb_events, verb_ps, verb_kill, verb_diff, verb_pause, verb_resume, verb_rm,
	verb_timeout, verb_net, verb_port, verb_top, verb_key, verb_tenant, verb_node, verb_policy,
	verb_secret, verb_template, verb_snapshot, verb_fork, verb_layers, verb_gc, verb_reset,
	verb_volume, verb_mcp, verb_packages, verb_limits, verb_usage, verb_inspect, verb_timeline,
	verb_cast, verb_replay, verb_audit, verb_trace, verb_export, verb_report;
