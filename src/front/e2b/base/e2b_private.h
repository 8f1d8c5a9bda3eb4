/* e2b_private.h - shared by the files of this folder: the adapter, its parts, its dialects.
 *
 *   e2b.c             the adapter, and requests that name a sandbox
 *   destination.c     is a request for the control plane or for a sandbox?
 *   token.c           access tokens of sandboxes, and signatures of files
 *   signature_limit.c how many signatures an address may have checked
 *
 *   control.c         the table of the control plane
 *   sandbox.c         the data of a sandbox, kept and shown. Sandboxes created
 *   sandbox_spec.c, network.c, netname.c
 *                     read requests for one
 *   sandbox_*.c       resumed, ended, listed (rfc3339.c), measured
 *   snapshot_routes.c snapshots and forks
 *   template_routes.c templates and their tags. template_find.c finds them by clients' names
 *   build_routes.c    how templates are built
 *   secret_routes.c   secrets, without their values
 *   volume_routes.c, volume_token.c, volume_content.c
 *                     volumes, and their content
 *
 *   sandbox_entry.c   requests into a sandbox: existence, access, envd or another port
 *   code_call.c       code for the interpreter of a sandbox: code_body.c reads the request,
 *                     code_answer.c the answer
 *   envd.c            the table of port 49983, and access to it
 *   rpc*.c            Connect: messages, bodies, streams
 *   process*.c        the process service: process.c answers with a _feed of _events, and finds
 *                     the process. _spec reads one. _input writes to it
 *   filesystem*.c     the filesystem service. dir_listing.c sorts a directory, dir_watch.c watches
 *                     one
 *   files_*.c         files by HTTP: condition.c and files_head.c for both, multipart.c for POST
 *   cell_file.c       operations of both services in the cell, and their failures. entry_info.c
 *                     shows a file */
#pragma once

#include "front/e2b/base/token.h"
#include "front/web/port_url.h"
#include "front/web/request.h"
#include "front/web/routes.h"

#define E2B_ENVD_PORT 49983
#define E2B_ENVD_VERSION "0.6.13" /* the envd version that clients see. They depend on it */
#define E2B_CLIENT_ID "cordon"

struct watcher_set; /* of watchers: filesystem_watch.c */
struct tenant_watchers;

/* One for the process. Requests borrow it (e2b_of()). */
struct e2b {
	struct core *core; /* borrowed */
	struct token_key key;
	uint8_t port_key[PORT_URL_KEY];	    /* of URLs of ports */
	struct watcher_set *watcher_sets;   /* of sandboxes with watchers */
	struct tenant_watchers *sums;	    /* of tenants with watchers */
	size_t watchers, watch_bytes;	    /* of all */
	struct signature_limit *signatures; /* signature_limit.c */
};

/* The adapter that a request came by. */
static inline struct e2b *e2b_of(const struct request *r)
{
	return r->interface;
}

/* ---- dialects
 *
 * Errors have another form in each part of the contract. A request begins with one dialect and may
 * change it when its destination is known. */
extern const struct dialect control_dialect;	   /* {"code":404,"message":"..."} */
extern const struct dialect sandbox_entry_dialect; /* {"sandboxId":..,"message":"..","code":502} */
extern const struct dialect envd_dialect; /* {"code":404,"message":"..."}, 502 for the gone */
extern const struct dialect rpc_unary_dialect, rpc_stream_dialect; /* see rpc.h */

/* ---- tables
 *
 * routes.c finds the handler in them. router.c and envd_handle() choose the table. */
extern const struct routes control_routes, envd_routes;

/* sandbox_entry.c: takes a request for a port of a sandbox, from its head on. */
void sandbox_entry_handle(struct e2b *b, struct exchange *x, const char *id, uint16_t port,
			  const char *token, bool tls);
/* Answer 400: the request names a sandbox and a port in a wrong way. why: a constant. */
void sandbox_entry_refuse(struct e2b *b, struct exchange *x, const char *why);
/* Answer 502: the sandbox does not exist, or has ended. */
void sandbox_entry_gone(struct request *r);

/* envd.c: checks that a request for envd is allowed. False: it was answered. paused: it
 * would resume the sandbox, which only clients with access may do. */
bool envd_admits(struct request *r, bool paused) MUST_USE;
/* One that may, when the sandbox is running (r->session_id, r->tenant are set). */
void envd_handle(struct request *r);
/* The user of a request: Basic authentication (RPC), or the parameter "username" (files). "" is the
 * default user. ERR_INVALID. */
#define ENVD_USER_MAX 64
int envd_user_of_rpc(struct request *r, char ret[ENVD_USER_MAX], struct err *e) MUST_USE;
int envd_user_of_files(struct request *r, char ret[ENVD_USER_MAX], struct err *e) MUST_USE;

/* ---- handlers of the control plane
 *
 * Each takes an authenticated request, and answers it now or later. Routes of one version of the
 * contract end in v1 or v2. */
/* sandbox.c */
void sandbox_create_v1(struct request *r);
void sandbox_create_v2(struct request *r);
/* sandbox_list.c */
void sandbox_list_v1(struct request *r);
void sandbox_list_v2(struct request *r);
/* sandbox_life.c */
void sandbox_get(struct request *r);
void sandbox_delete(struct request *r);
void sandbox_connect_v1(struct request *r);
void sandbox_connect_v2(struct request *r);
void sandbox_resume(struct request *r);
void sandbox_pause(struct request *r);
void sandbox_timeout(struct request *r);
void sandbox_refreshes(struct request *r);
/* sandbox.c */
void sandbox_network(struct request *r);
/* sandbox_metrics.c */
void sandbox_metrics(struct request *r);
void sandbox_metrics_many(struct request *r);
/* sandbox_logs.c */
void sandbox_logs_v1(struct request *r);
void sandbox_logs_v2(struct request *r);
/* template_routes.c */
void template_routes_list_v1(struct request *r);
void template_routes_list_v2(struct request *r);
void template_routes_get(struct request *r);
void template_routes_alias(struct request *r);
void template_changes_delete(struct request *r);
void template_changes_patch_v1(struct request *r);
void template_changes_patch_v2(struct request *r);
/* build_routes.c. tag_routes_*: template_routes.c */
void build_routes_request(struct request *r);
void build_routes_start(struct request *r);
void build_routes_status(struct request *r);
void build_routes_logs(struct request *r);
void upload_routes_link(struct request *r);
void upload_routes_put(struct request *r);
void tag_routes_assign(struct request *r);
void tag_routes_remove(struct request *r);
void tag_routes_list(struct request *r);
/* snapshot_routes.c */
void snapshot_routes_create(struct request *r);
void snapshot_routes_list(struct request *r);
/* Delete the snapshot that the path names. False: it is none, and the request is not answered. */
bool snapshot_routes_delete(struct request *r) MUST_USE;
void fork_routes_v1(struct request *r);
void fork_routes_v2(struct request *r);
void fork_routes_clone(struct request *r);
void fork_routes_reset(struct request *r);
/* secret_routes.c */
void secret_routes_list(struct request *r);
void secret_routes_create(struct request *r);
void secret_routes_get(struct request *r);
void secret_routes_update(struct request *r);
void secret_routes_delete(struct request *r);
/* volume_routes.c */
void volume_routes_list(struct request *r);
void volume_routes_create(struct request *r);
void volume_routes_get(struct request *r);
void volume_routes_delete(struct request *r);
/* volume_content.c */
void volume_content_list(struct request *r);
void volume_content_make_dir(struct request *r);
void volume_content_stat(struct request *r);
void volume_content_change(struct request *r);
void volume_content_remove(struct request *r);
void volume_file_read(struct request *r);
void volume_file_write(struct request *r);
/* control.c: parts of the contract that Cordon lacks so far */
void unsupported_builds(struct request *r);
void unsupported_teams(struct request *r);
void control_health(struct request *r);

/* ---- handlers of envd
 *
 * Access was checked by envd_admits(), and the sandbox runs. */
/* process.c, process_input.c */
void process_list(struct request *r);
void process_start(struct request *r);
void process_connect(struct request *r);
void process_update(struct request *r);
void process_stream_input(struct request *r);
void process_send_input(struct request *r);
void process_send_signal(struct request *r);
void process_close_stdin(struct request *r);
/* filesystem.c, filesystem_watch.c */
void filesystem_stat(struct request *r);
void filesystem_make_dir(struct request *r);
void filesystem_move(struct request *r);
void filesystem_list_dir(struct request *r);
void filesystem_remove(struct request *r);
void filesystem_watch_dir(struct request *r);
void filesystem_create_watcher(struct request *r);
void filesystem_get_watcher_events(struct request *r);
void filesystem_remove_watcher(struct request *r);
/* files_get.c, files_post.c */
void files_get(struct request *r);
void files_post(struct request *r);
void files_compose(struct request *r);
/* envd.c, sandbox_metrics.c */
void envd_health(struct request *r);
void sandbox_metrics_envd(struct request *r);
void envd_envs(struct request *r);
