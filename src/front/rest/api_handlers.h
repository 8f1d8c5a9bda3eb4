/* api_handlers.h - the handlers in api.c's table of routes, one group for each file. Each takes an
 * authenticated request and answers it, now or later. */
#pragma once

#include <stdbool.h>

#include "lib/base/err.h"

struct request;
struct session;
struct store_session;

/* api_node.c: without a key. */
void api_node_root(struct request *r);
void api_node_document(struct request *r);
void api_node_health(struct request *r);
void api_node_ready(struct request *r);
void api_node_metrics(struct request *r);
/* Does the setting `metrics` allow this request without a key? */
bool api_node_metrics_are_open(const struct request *r);
void api_node_get(struct request *r);
/* For the operator only. */
void api_layers_list(struct request *r);
void api_layers_collect(struct request *r);

/* api_resources.c */
struct json;
struct store_sample;
/* Also after the session's end, while its row is kept. */
void api_resources_get(struct request *r);
/* One point of a session's history. */
void api_resources_show(struct json *j, const char *name, const struct store_sample *p);

/* api_cast.c: answers with a stream. */
void api_cast_get(struct request *r);

/* api_timeline.c: a page, or a stream for a follower. */
void api_timeline_get(struct request *r);

/* api_audit.c: a page, a stream for a follower, or an export as lines. */
void api_audit_list(struct request *r);
void api_audit_checkpoint(struct request *r);
void api_audit_tile(struct request *r);

/* api_report.c: for a session or for the tenant, as the path says. */
void api_report(struct request *r);

/* api_audit_change.c: in pieces. The answer comes at the end. */
void api_audit_erase(struct request *r);
void api_audit_prune(struct request *r);

/* api_audit_keys.c */
void api_audit_cosignature(struct request *r);
void api_audit_keys(struct request *r);
void api_audit_rotate(struct request *r);

/* api_session_create.c: the answer comes when the session runs, or cannot. */
void api_sessions_create(struct request *r);

/* api_sessions.c */
/* Answer with a session. fresh: it has used nothing yet, so the kernel need not be asked. */
void api_sessions_reply(struct request *r, int status, struct session *s, bool fresh);
/* An ended one. */
void api_sessions_reply_row(struct request *r, int status, const struct store_session *row);
void api_sessions_list(struct request *r);
void api_sessions_get(struct request *r);
void api_sessions_delete(struct request *r);
void api_sessions_patch(struct request *r);
void api_sessions_pause(struct request *r);
void api_sessions_resume(struct request *r);
void api_sessions_reset(struct request *r);
void api_sessions_timeout(struct request *r);
void api_fork_create(struct request *r);
void api_metrics_get(struct request *r);
void api_diff_get(struct request *r);
void api_mcp_get(struct request *r);
void api_ports_open(struct request *r);
void api_ports_close(struct request *r);

/* api_snapshots.c: the answer comes when the snapshot is kept. */
void api_snapshots_create(struct request *r);
void api_snapshots_list(struct request *r);
void api_snapshots_get(struct request *r);
void api_snapshots_delete(struct request *r);

/* api_executions.c: at once, or with `wait` at the execution's end. */
void api_executions_create(struct request *r);
void api_executions_list(struct request *r);
void api_executions_get(struct request *r);
void api_executions_delete(struct request *r);
void api_control_input(struct request *r);
void api_control_signal(struct request *r);
void api_control_resize(struct request *r);

/* api_output.c: a range of bytes, a stream of events, and a WebSocket. */
void api_output_get(struct request *r);
void api_stream_get(struct request *r);
void api_attach_get(struct request *r);

/* api_processes.c */
void api_processes_list(struct request *r);
void api_processes_kill(struct request *r);

/* api_content.c: a file out of the cell, and into it. */
void api_content_get(struct request *r);
void api_content_put(struct request *r);

/* api_files.c: answered with an entry, an archive, events, or without a body */
void api_files_stat(struct request *r);
void api_files_list(struct request *r);
void api_files_mkdir(struct request *r);
void api_files_move(struct request *r);
void api_files_delete(struct request *r);
void api_archive_get(struct request *r);
void api_archive_put(struct request *r);
void api_watch_get(struct request *r);

/* api_records.c: each answers with a page, or with a stream for a follower. */
void api_trace(struct request *r);
void api_events_session(struct request *r);
void api_events_tenant(struct request *r);
void api_network_log(struct request *r);
void api_packages_list(struct request *r);

/* api_network.c: a tenant's policy is for the operator only. */
void api_network_get(struct request *r);
void api_network_put(struct request *r);
void api_network_tenant_get(struct request *r);
void api_network_tenant_put(struct request *r);

/* api_package_cache.c: for the operator only. */
void api_package_cache_get(struct request *r);
void api_package_cache_list(struct request *r);
void api_package_cache_collect(struct request *r);
void api_package_cache_verify(struct request *r);

/* api_tenants.c */
void api_tenants_list(struct request *r);
void api_tenants_create(struct request *r);
void api_tenants_get(struct request *r);
void api_tenants_update(struct request *r);
void api_tenants_delete(struct request *r);
/* The tenant of the path if the key is the operator's. Otherwise answer and return NULL. The second
 * is for requests that change it: the key must have no limits of its own. */
struct tenant *api_tenants_find(struct request *r);
struct tenant *api_tenants_find_to_change(struct request *r);
void api_limits_get(struct request *r);
void api_usage_get(struct request *r);
void api_keys_list(struct request *r);
void api_keys_create(struct request *r);
void api_keys_delete(struct request *r);
void api_keys_create_for(struct request *r);

/* api_secrets.c: no answer has a secret's value. */
void api_secrets_list(struct request *r);
void api_secrets_create(struct request *r);
void api_secrets_get(struct request *r);
void api_secrets_update(struct request *r);
void api_secrets_delete(struct request *r);

/* api_volumes.c */
void api_volumes_list(struct request *r);
void api_volumes_create(struct request *r);
void api_volumes_get(struct request *r);
void api_volumes_delete(struct request *r);

/* api_builds.c: in the order in which a client calls them. */
void api_builds_request(struct request *r);
void api_builds_upload(struct request *r);
void api_builds_start(struct request *r);
void api_builds_get(struct request *r);
void api_builds_list(struct request *r);
void api_builds_clear_cache(struct request *r);
void api_builds_cancel(struct request *r);
void api_pull(struct request *r);

/* api_templates.c */
void api_templates_list(struct request *r);
void api_templates_get(struct request *r);
void api_templates_add(struct request *r);
void api_templates_delete(struct request *r);
void api_template_change(struct request *r);
void api_template_files(struct request *r);
void api_template_tags_add(struct request *r);
void api_template_tags_delete(struct request *r);
struct template_version;
/* Answer with the template. */
void api_template_reply(struct request *r, int status, const struct template_version *v);
