/* store_rows.h - a row of each table of the store with another value in each column, written and
 * read by the store's functions. data/store_v39.sql is the dump of a database that the release with
 * schema 39 made with these rows. */
#ifndef CORDON_TESTS_UNIT_STORE_ROWS_H
#define CORDON_TESTS_UNIT_STORE_ROWS_H

#include "daemon/store/store_build.h"
#include "daemon/store/store_event.h"
#include "daemon/store/store_execution.h"
#include "daemon/store/store_key.h"
#include "daemon/store/store_layer.h"
#include "daemon/store/store_session.h"
#include "daemon/store/store_net.h"
#include "daemon/store/store_package.h"
#include "daemon/store/store_secret.h"
#include "daemon/store/store_template.h"
#include "daemon/store/store_usage.h"
#include "daemon/store/store_volume.h"
#include "lib/base/str.h"
#include "store_support.h"

/* 0: the members that schema 39 had. */
static bool rows_with_all_members;

#define ALLOW(n)                                                                               \
	{                                                                                      \
		.templates = "templates" #n, .levels = "levels" #n, .networks = "networks" #n, \
		.memory_bytes = 1##n, .cpu_millis = 2##n, .pids = 3##n, .disk_bytes = 4##n,    \
		.timeout_ms = 5##n, .sessions = 6##n, .creates_per_minute = 7##n               \
	}

static const struct store_tenant rows_tenant = { .id = "ten_1",
						 .name = "tenant",
						 .is_operator = true,
						 .created_ms = 1001,
						 .max_sessions = 1002,
						 .create_rate_milli = 1003,
						 .create_burst = 1004,
						 .queue_length = 1005,
						 .queue_ms = 1006,
						 .max_memory = 1007,
						 .max_storage = 1008,
						 .max_pids = 1009,
						 .max_stored = 1010,
						 .allow = ALLOW(01) };

static const struct store_key rows_key = { .id = "key_1",
					   .tenant = "ten_1",
					   .name = "key",
					   .hash = { 1, 2, 3, 0, 4 },
					   .prefix = "01234567",
					   .scopes = 2001,
					   .created_ms = 2002,
					   .expires_ms = 2003,
					   .last_used_ms = 2004,
					   .revoked_ms = 2005,
					   .allow = ALLOW(02) };

/* The first has ended. */
static const struct store_session rows_sessions[] = {
	{ .id = "ses_1",
	  .tenant = "ten_1",
	  .template = "template",
	  .template_id = "tpl_1",
	  .profile = 3001,
	  .level = 3002,
	  .created_ms = 3003,
	  .limits = { .memory_bytes = 3004,
		      .cpu_millis = 3005,
		      .pids = 3006,
		      .disk_bytes = 3007,
		      .inodes = 3008,
		      .nofile = 3009,
		      .read_bps = 3011,
		      .write_bps = 3012 },
	  .output_limit = 3010,
	  .env = "A=b\0C=",
	  .env_len = 7,
	  .mounts = "mounts",
	  .creator_key = "key_creator",
	  .storage = 3013,
	  .read_only = true,
	  .keep_ms = 3014,
	  .state = 3015,
	  .reason = 3016,
	  .started_ms = 3017,
	  .ended_ms = 3018,
	  .deadline_ms = 3019,
	  .paused_since_ms = 3020,
	  .paused_total_ms = 3021,
	  .boot_id = "boot",
	  .pid = -3022,
	  .detail = "it's \"over\"",
	  .cold = 3023,
	  .image = "lay_image",
	  .image_bytes = 3024,
	  .guest_origin = "origin\tof the guest",
	  .timeout_ms = 3025,
	  .idle_ms = 3026,
	  .on_timeout = 3027,
	  .on_idle = 3028,
	  .metadata = "{\"label\":\"blue\"}",
	  .rules = "rules",
	  .network = "network",
	  .client = "client",
	  .policy = "policy",
	  .secrets = "secrets",
	  .usage = { .cpu_us = 3029,
		     .memory_peak_bytes = 3030,
		     .disk_bytes = 3031,
		     .bytes_out = 3032,
		     .net_bytes_in = 3033,
		     .net_bytes_out = 3034,
		     .net_requests = 3035 },
	  .keep_diff = 3036,
	  .diff_bytes = 3037,
	  .diff_why = "diff_why",
	  .ports = "ports" },
	{ .id = "ses_2", .tenant = "ten_1", .created_ms = 3040 },
};

static const struct store_execution rows_executions[] = {
	{ .id = "exe_1",
	  .session = "ses_1",
	  .tenant = "ten_1",
	  .kind = 4001,
	  .command_hash = { 9, 8, 7, 0, 6 },
	  .command = "command",
	  .cwd = "cwd",
	  .user = "user",
	  .tty = true,
	  .created_ms = 4002,
	  .timeout_ms = 4003,
	  .actor = { "api", "key_actor", "req_1" },
	  .output_limit = 4004,
	  .secrets = "secrets",
	  .language = "language",
	  .context = "context",
	  .handle = 4005,
	  .state = 4006,
	  .started_ms = 4007,
	  .ended_ms = 4008,
	  .exit_code = -4009,
	  .signal = 4010,
	  .limit = "memory",
	  .timed_out = true,
	  .error_code = 4011,
	  .error = "error",
	  .out_bytes = 4012,
	  .err_bytes = 4013,
	  .log_bytes = 4014,
	  .truncated = true,
	  .cpu_us = 4015,
	  .mark = 4016,
	  .client = "client",
	  .result_bytes = 4017 },
	{ .id = "exe_2",
	  .session = "ses_2",
	  .tenant = "ten_1",
	  .created_ms = 4020,
	  .timed_out = true,
	  .output_open = true },
};

static const struct store_event rows_event = { .tenant = "ten_1",
					       .session = "ses_1",
					       .execution = "exe_1",
					       .time_ms = 5001,
					       .type = "type",
					       .data = "data",
					       .actor = { "e2b", "key_event", "req_2" } };

static const struct store_net rows_net = { .tenant = "ten_1",
					   .session = "ses_1",
					   .time_ms = 6001,
					   .kind = "dns",
					   .allowed = true,
					   .name = "name",
					   .data = "data",
					   .execution = "exe_1" };

static const struct store_net_claim rows_claim = { .rule = "rule", .in = 6101, .out = 6102 };

static const struct store_package rows_package = { .tenant = "ten_1",
						   .session = "ses_1",
						   .ecosystem = "pypi",
						   .registry = "registry",
						   .name = "name",
						   .version = "version",
						   .result = 7001,
						   .attempts = 7002,
						   .downloads = 7003,
						   .refusals = 7004,
						   .bytes = 7005,
						   .first_ms = 7006,
						   .last_ms = 7007,
						   .execution = "exe_1",
						   .data = "{}" };

static const struct store_package_sum rows_package_sum = {
	.downloads = 7101, .refusals = 7102, .mismatches = 7103, .bytes = 7104, .hits = 7105
};

static const struct store_mcp_pin rows_pin = { .tool = "tool", .hash = "hash" };

static const struct store_usage_sums rows_usage = { .cpu_us = 8001,
						    .memory_kib_ms = 8002,
						    .disk_kib_ms = 8003,
						    .net_bytes_in = 8004,
						    .net_bytes_out = 8005,
						    .sessions = 8006 };

static const struct store_usage_mark rows_mark = {
	.cpu_us = 8101, .net_bytes_in = 8102, .net_bytes_out = 8103, .seen_ns = 8104
};

static const struct store_secret rows_secret = { .id = "sec_1",
						 .tenant = "ten_1",
						 .name = "secret",
						 .version = 9001,
						 .created_ms = 9002,
						 .updated_ms = 9003,
						 .expires_ms = 9004,
						 .ways = 9005,
						 .metadata = "metadata",
						 .hosts = "hosts",
						 .methods = "methods",
						 .paths = "paths",
						 .places = "places",
						 .box = "box\0x",
						 .box_len = 6 };

/* Each of the five flags is set in other rows than the others. */
static const struct store_template rows_templates[] = {
	{ .id = "tpl_1",
	  .tenant = "ten_1",
	  .name = "first",
	  .template_id = "aaaaaaaaaaaaaaaaaaaa",
	  .kind = 10001,
	  .level = 10002,
	  .created_ms = 10003,
	  .layers = "layers",
	  .mounts = "mounts",
	  .env = "A=b\0",
	  .env_len = 4,
	  .user = "user",
	  .workdir = "workdir",
	  .start_command = "start",
	  .ready_command = "ready",
	  .start_restart = true,
	  .interpreter = true,
	  .source = "ses_source",
	  .public = true,
	  .bytes = 10004,
	  .provenance = "provenance",
	  .offered_command = "offered",
	  .cpu_millis = 10005,
	  .memory_bytes = 10006,
	  .expires_ms = 10007,
	  .memory_profile = 10008 },
	{ .id = "tpl_2",
	  .tenant = "ten_1",
	  .name = "second",
	  .template_id = "bbbbbbbbbbbbbbbbbbbb",
	  .interpreter = true,
	  .memory_read_only = true },
	{ .id = "tpl_3",
	  .tenant = "ten_1",
	  .name = "third",
	  .template_id = "cccccccccccccccccccc",
	  .public = true,
	  .memory_read_only = true },
};

static const struct store_template_tag rows_tag = {
	.template_id = "aaaaaaaaaaaaaaaaaaaa", .tag = "tag", .version = "tpl_1", .created_ms = 10101
};

static const struct store_layer rows_layer = { .id = "lay_1",
					       .tenant = "ten_1",
					       .kind = "kind",
					       .bytes = 11001,
					       .entries = 11002,
					       .created_ms = 11003,
					       .digest = "digest",
					       .origin = "origin" };

static const struct store_volume rows_volume = { .id = "vol_1",
						 .tenant = "ten_1",
						 .name = "volume",
						 .kind = 12001,
						 .state = STORE_VOLUME_READY,
						 .bytes = 12002,
						 .created_ms = 12003,
						 .expires_ms = 12004,
						 .generation = 12005 };

static const struct store_build rows_build = { .id = "build",
					       .tenant = "ten_1",
					       .template_id = "dddddddddddddddddddd",
					       .name = "name",
					       .status = 13001,
					       .step = "step",
					       .cpu_millis = 13002,
					       .memory_bytes = 13003,
					       .created_ms = 13004,
					       .updated_ms = 13005,
					       .finished_ms = 13006,
					       .version = "tpl_version",
					       .tags = "tags",
					       .reason = "reason" };

static const struct store_build_entry rows_entry = {
	.seq = 13101, .time_ms = 13102, .level = 13103, .step = "step", .message = "message"
};

static const struct store_build_cached rows_cached = { .tenant = "ten_1",
						       .key = "key",
						       .layer = "lay_1",
						       .bytes = 13201,
						       .used_ms = 13202,
						       .user = "user",
						       .workdir = "workdir",
						       .env = "A=\0",
						       .env_len = 3 };

static const struct store_build_upload rows_upload = { .tenant = "ten_1",
						       .template_id = "dddddddddddddddddddd",
						       .hash = "hash",
						       .digest = "digest",
						       .file = "file",
						       .bytes = 13301,
						       .used_ms = 13302 };

static inline void rows_write_sessions(struct store *s)
{
	bool is_new;
	struct err e;

	MUST(store_tenant_insert(s, &rows_tenant, &e));
	MUST(store_tenant_set_policy(s, "ten_1", "policy of the tenant", &e));
	MUST(store_key_insert(s, &rows_key, &e));
	for (size_t i = 0; i < COUNT(rows_sessions); i++) {
		struct store_session row = rows_sessions[i];

		if (!rows_with_all_members)
			row.ports[0] = '\0';
		MUST(store_session_insert(s, &row, &e));
	}
	for (size_t i = 0; i < COUNT(rows_executions); i++) {
		struct store_execution row = rows_executions[i];

		if (rows_with_all_members)
			str_copy(row.limits_hit, i == 0 ? "pids,memory" : "");
		MUST(store_execution_insert(s, &row, &e));
	}
	MUST(store_event_append(s, &rows_event, NULL, &e));
	MUST(store_net_append(s, &rows_net, NULL, &e));
	MUST(store_net_claim_set(s, "ses_1", &rows_claim, &e));
	MUST(store_package_add(s, &rows_package, &is_new, &e));
	MUST(store_package_sum_add(s, "ses_1", &rows_package_sum, &e));
	MUST(store_mcp_pin_add(s, "ses_1", &rows_pin, &e));
	MUST(store_usage_add(s, "ten_1", "ses_1", 8000, &rows_usage, &rows_mark, &e));
	MUST(store_secret_insert(s, &rows_secret, &e));
	MUST(store_meta_set(s, "boot", "id", &e));
}

static inline void rows_write_templates(struct store *s)
{
	struct store_build build = rows_build;
	struct err e;

	for (size_t i = 0; i < COUNT(rows_templates); i++) {
		struct store_template row = rows_templates[i];

		MUST(store_template_insert(s, &row, &e));
	}
	MUST(store_template_tag_set(s, &rows_tag, &e));
	MUST(store_layer_insert(s, &rows_layer, &e));
	MUST(store_layer_use(s, STORE_LAYER_OF_SESSION, "ses_2", &rows_layer.id, 1, &e));
	MUST(store_volume_insert(s, &rows_volume, &e));
	MUST(store_volume_add_use(s, "vol_1", "ses_2", &e));
#ifndef STORE_ROWS_V39
	build.log_bytes = rows_with_all_members ? 13007 : 65536;
#endif
	MUST(store_build_insert(s, &build, &e));
	MUST(store_build_log_add(s, "build", &rows_entry, &e));
	MUST(store_build_cache_put(s, &rows_cached, &e));
	MUST(store_build_upload_put(s, &rows_upload, &e));
}

/* Write all rows into an empty store. */
static inline void rows_write(struct store *s, bool all_members)
{
	rows_with_all_members = all_members;
	rows_write_sessions(s);
	rows_write_templates(s);
}

#endif
