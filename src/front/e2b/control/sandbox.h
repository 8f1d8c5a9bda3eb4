/* sandbox.h - a session as E2B's clients know it: the adapter's texts in its row, and its JSON. */
#pragma once

#include "daemon/session/session.h"
#include "lib/json/json.h"

struct e2b;
struct request;

#define SANDBOX_HOST_MAX 256
#define SANDBOX_TEMPLATE_MAX 64

/* Kept in the row's `client` as JSON, and never changed. A session of another interface has none:
 * its defaults. Its network options are in the row's `network` (network.h). */
struct sandbox {
	bool secure;	     /* envd requires its token. Default: yes */
	bool auto_resume;    /* traffic resumes it. Default: no */
	bool public_traffic; /* other ports need no token. Default: yes. Other interfaces' sessions:
				no */
	uint64_t timeout_ms; /* the first timeout, which a resume without one restores. 0:
				unknown */
	char mask_host[SANDBOX_HOST_MAX];    /* maskRequestHost. "": none */
	char template[SANDBOX_TEMPLATE_MAX]; /* as requested: an alias. "": none */
};

void sandbox_read(const struct store_session *row, struct sandbox *ret);
/* The text for the row. NULL without memory. The caller frees it. */
char *sandbox_write(const struct sandbox *b) MUST_USE;

/* Is it paused, or being paused? To clients any other is running. */
bool sandbox_is_paused(const struct store_session *row);
/* Does it exist for clients? Not before it runs, not once it ends. */
bool sandbox_exists(const struct store_session *row);

/* The E2B id of the template of a session: template_find.h. */
const char *sandbox_template_id(const struct core *c, const struct store_session *row);

/* The size that clients see: the limits, or the machine's size for a missing limit. At least one
 * CPU. */
struct sandbox_size {
	uint64_t cpus, memory_bytes, disk_bytes;
};
void sandbox_size(const struct cell_limits *limits, struct sandbox_size *ret);

/* ---- of a request for one */
/* The sandbox in the path, of this tenant. NULL: the request was answered with 404. */
struct session *sandbox_find(struct request *r);
/* Find a sandbox that must be running. NULL: answered with 404 or 409. */
struct session *sandbox_find_running(struct request *r);
/* Answer 404 in E2B's words. */
void sandbox_missing(struct request *r);
/* Answer for a failure of the core, under which the sandbox may have ended. */
void sandbox_fail(struct request *r, const struct err *e);

/* The policy of a row's network text. "": the node's default. The caller frees *ret. */
int sandbox_network_policy(struct request *r, const char *text, char **ret, struct err *e) MUST_USE;

/* ---- how it is written */
/* Sandbox, as create, connect, resume and fork answer. */
void sandbox_shape(struct json *j, const char *name, const struct e2b *b, const struct session *s);
/* Answer with Sandbox: create, connect, resume. */
void sandbox_reply(struct request *r, int status, const struct session *s);
/* SandboxDetail, ListedSandbox. secrets: with its access token. Only for keys that may use the
 * sandbox. */
void sandbox_shape_detail(struct json *j, const char *name, const struct e2b *b,
			  const struct store_session *row, bool secrets);
void sandbox_shape_listed(struct json *j, const char *name, const struct e2b *b,
			  const struct store_session *row);
/* Milliseconds since 1970 as RFC 3339. */
void sandbox_shape_time(struct json *j, const char *name, uint64_t ms);
