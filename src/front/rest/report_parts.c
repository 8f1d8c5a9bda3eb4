/* report_parts.c - see report_parts.h. */
#include "front/rest/report_parts.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/audit/audit_leaf.h"
#include "daemon/node/core.h"
#include "daemon/store/store_key.h"
#include "daemon/tenant/tenant.h"
#include "front/web/auth.h"
#include "front/web/json_view.h"
#include "lib/base/fd.h"
#include "lib/base/hex.h"
#include "lib/base/own.h"
#include "lib/base/sha256.h"
#include "lib/json/json_read.h"
#include "lib/policy/policy_select.h"

#define REPORT_KEYS_MAX 200
#define REPORT_KEYS_LOOKED 4096	  /* rows, with those of revoked keys */
#define REPORT_POLICY_MAX 16384	  /* a longer one is in the report by its digest */
#define REPORT_EVIDENCE_MAX 49152 /* of one file */
#define REPORT_EVIDENCE_DEPTH 8

/* SHA-256 in hexadecimal. */
static void report_parts_digest(struct json *j, const char *name, const void *bytes, size_t len)
{
	uint8_t hash[SHA256_SIZE];
	char hex[2 * SHA256_SIZE + 1];

	sha256_of(bytes, len, hash);
	hex_encode(hash, sizeof(hash), hex);
	json_text(j, name, hex);
}

/* ---- policies
 *
 * The digest is the audit log's, so an auditor can compare the two. The documents are shown without
 * the proxy's password. */

/* The one that is in the audit log. */
static void policy_digest(struct json *j, const char *document)
{
	uint8_t hash[SHA256_SIZE];
	char hex[2 * SHA256_SIZE + 1];
	struct sha256 sum;

	sha256_init(&sum);
	audit_leaf_hash_policy(&sum, document, "proxy");
	sha256_end(&sum, hash);
	hex_encode(hash, sizeof(hash), hex);
	json_text(j, "sha256", hex);
}

/* all: the reader may see the document. A long one is there by its digest only. */
static void report_parts_policy(struct json *j, const char *name, const char *document, bool all)
{
	OWN_MEM char *shown = NULL;

	if (document == NULL || document[0] == '\0') {
		json_none(j, name);
		return;
	}
	json_open(j, name, '{');
	policy_digest(j, document);
	json_uint(j, "bytes", strlen(document));
	if (all && strlen(document) <= REPORT_POLICY_MAX)
		shown = policy_select_reported(document);
	if (shown == NULL)
		json_none(j, "document");
	else
		json_raw(j, "document", shown);
	json_close(j, '}');
}

/* The node's names hosts of the operator: others see its digest. */
void report_policies(struct json *j, const struct request *r)
{
	json_open(j, "policies", '{');
	report_parts_policy(j, "node", core_options(r->core)->node_policy, auth_is_operator(r));
	report_parts_policy(j, "tenant", tenant_policy(r->tenant), true);
	json_text(j, "session_default", core_config(r->core)->network_default);
	json_close(j, '}');
}

/* ---- keys
 *
 * Only keys in force. Their texts are not known to the server. */

static const struct {
	const char *name;
	unsigned bit;
} scopes[] = { { "read", TENANT_READ },
	       { "sessions", TENANT_SESSIONS },
	       { "admin", TENANT_ADMIN },
	       { "audit", TENANT_AUDIT } };

/* with counts the listed keys of each scope. */
struct report_parts_keys {
	struct json *j;
	unsigned n, with[COUNT(scopes)];
	bool more;
};

/* 1: enough keys are listed, and more says that there are others. */
static int on_key(const struct store_key *k, void *cookie)
{
	struct report_parts_keys *all = cookie;
	struct json *j = all->j;

	if (k->revoked_ms != 0)
		return 0;
	if (all->n == REPORT_KEYS_MAX) {
		all->more = true;
		return 1;
	}
	all->n++;
	json_open(j, NULL, '{');
	json_text(j, "id", k->id);
	json_text(j, "name", k->name);
	json_open(j, "scopes", '[');
	for (size_t i = 0; i < COUNT(scopes); i++)
		if ((k->scopes & scopes[i].bit) != 0) {
			json_text(j, NULL, scopes[i].name);
			all->with[i]++;
		}
	json_close(j, ']');
	json_view_time(j, "created_at", k->created_ms);
	json_view_time(j, "expires_at", k->expires_ms);
	json_view_time(j, "last_used_at", k->last_used_ms);
	json_close(j, '}');
	return 0;
}

int report_keys(struct json *j, struct request *r, struct err *e)
{
	const struct store_key_filter f = { .tenant = tenant_row(r->tenant)->id,
					    .limit = REPORT_KEYS_LOOKED };
	struct store_looked looked;
	struct report_parts_keys all = { .j = j };

	json_open(j, "keys", '[');
	if (store_key_list(core_store(r->core), &f, on_key, &all, &looked, e) < 0)
		return -1;
	json_close(j, ']');
	json_bool(j, "more_keys", all.more || !looked.end);
	json_open(j, "keys_by_scope", '{');
	for (size_t i = 0; i < COUNT(scopes); i++)
		json_uint(j, scopes[i].name, all.with[i]);
	json_close(j, '}');
	return 0;
}

/* ---- evidence
 *
 * The operator puts the files there. They are read as data: a missing, long or malformed one
 * changes the report and nothing else. */

/* Return its length, at most cap. -1: there is no such file. A link is refused, and a pipe does not
 * block. */
static ssize_t read_evidence(int state_fd, const char *path, char *text, size_t cap,
			     struct stat *ret)
{
	OWN_FD fd = openat(state_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	size_t len = 0;

	if (fd < 0 || fstat(fd, ret) < 0 || !S_ISREG(ret->st_mode))
		return -1;
	while (len < cap) {
		ssize_t n = read(fd, text + len, cap - len);

		if (n <= 0)
			break;
		len += (size_t)n;
	}
	return (ssize_t)len;
}

/* Rows of the findings name paths and users of the machine: all see the digest, the operator the
 * content. */
static void report_parts_evidence(struct json *j, int state_fd, const char *name, const char *path,
				  bool all)
{
	OWN_MEM char *text = malloc(REPORT_EVIDENCE_MAX + 2);
	struct json_value root;
	struct stat st;
	struct err e;
	ssize_t n = text == NULL
			    ? -1
			    : read_evidence(state_fd, path, text, REPORT_EVIDENCE_MAX + 1, &st);

	if (n < 0) {
		json_none(j, name);
		return;
	}
	text[n] = '\0';
	json_open(j, name, '{');
	json_view_time(j, "recorded_at",
		       (uint64_t)st.st_mtim.tv_sec * 1000 + (uint64_t)st.st_mtim.tv_nsec / 1000000);
	json_bool(j, "by_root", st.st_uid == 0);
	json_uint(j, "bytes", (uint64_t)st.st_size);
	if (n > REPORT_EVIDENCE_MAX ||
	    json_read(text, (size_t)n, REPORT_EVIDENCE_DEPTH, &root, &e) < 0 ||
	    root.kind != JSON_READ_OBJECT) {
		json_none(j, "content");
	} else {
		report_parts_digest(j, "sha256", text, (size_t)n);
		if (!all)
			json_none(j, "content");
		text[(size_t)(root.p - text) + root.n] = '\0';
		if (all)
			json_raw(j, "content", root.p);
	}
	json_close(j, '}');
}

void report_evidence(struct json *j, struct request *r)
{
	const int state_fd = core_options(r->core)->state_fd;

	json_open(j, "evidence", '{');
	report_parts_evidence(j, state_fd, "doctor", "evidence/doctor.json", auth_is_operator(r));
	report_parts_evidence(j, state_fd, "tests", "evidence/tests.json", auth_is_operator(r));
	json_close(j, '}');
}
