/* package_gate_base.h - the structure of a gate. For package_gate*.c and package_record.c only.
 *
 * package_gate.c has the way of a request, its end, and the limits of a session.
 * package_gate_meta.c answers with shaped metadata, Go's lists of versions among them.
 * package_gate_file.c gets files from the cache or the server, and knows since when this node knows
 * a version. package_gate_answer.c checks answers of servers and redirects, passes unshaped
 * documents on, and writes a page for pip. package_gate_sums.c finds digests: of apt's packages,
 * Maven's files, Go's modules. package_download.c makes requests for one file wait for the first.
 *
 * Only the loop calls what waits here, so each of these ends with gateway_defer(). A refusal or an
 * answer frees the gate: nothing is used of it afterwards. */
#pragma once

#include "egress/gateway/gateway_base.h"
#include "egress/packages/package_apt.h"
#include "egress/packages/package_download.h"
#include "egress/packages/package_gate.h"
#include "egress/packages/package_redirect.h"
#include "egress/packages/package_view.h"
#include "lib/packages/package_shape.h"
#include "lib/policy/package_judge.h"
#include "lib/policy/package_recognise.h"
#include "lib/policy/package_record_text.h"

/* Where the expected digest came from. */
enum package_origin {
	PACKAGE_BY_NONE,
	PACKAGE_BY_INDEX,
	PACKAGE_BY_PIN,
	PACKAGE_BY_NAME, /* the file is called by it */
	PACKAGE_BY_CHECKSUM_FILE,
	PACKAGE_BY_SUMDB,
};

struct package_gate {
	struct gateway *x;
	const struct packages_policy *policy;	 /* the session's. NULL: only recorded */
	const struct package_registry *registry; /* of that policy. NULL: a direct URL */
	/* Of keys of the cache: a copy, since a change of the policy takes `registry` away. */
	char registry_text[PACKAGE_REGISTRY_TEXT];
	bool at_registry; /* the host is one of a registry, also if the URL is a direct one */
	bool is_files;
	/* See struct package_question. Owned: a redirect rewrites the gateway's path. NULL. */
	char *path;
	size_t prefix;
	unsigned git_starts;
	bool is_loose;
	bool has_direct;
	struct package_request direct;
	struct package_request request;
	struct package_answer answer; /* of the last question */
	char scope[CACHE_SCOPE_MAX];
	char own_scope[CACHE_SCOPE_MAX]; /* the same, but never shared with other tenants */
	bool own_credentials;		 /* the program's request has some */

	/* Metadata. */
	struct package_view_wait wait;
	unsigned asked;		      /* times that a view was asked for */
	uint64_t since_ms;	      /* for package_view_ask */
	struct package_source source; /* what was asked for */
	void (*then)(struct package_gate *g);
	struct package_document *doc;	/* held */
	size_t counted;			/* bytes of it, counted for the session */
	struct package_apt_search *apt; /* package_gate_sums.c. NULL: none */
	bool has_facts;
	struct package_facts facts; /* its texts belong to doc */
	bool backdated; /* it claims to be older than metadata that did not have it. Of metadata:
			 * a version does */
	bool exists;	/* the registry has said that it has the version */
	struct package_probe *probe; /* package_gate_file.c. NULL: none */
	unsigned sums_asked;	     /* package_gate_sums.c: of Maven's algorithms */
	uint64_t first_seen_ms, now_ms;
	struct cache_call seen;
	struct package_go *go;		 /* package_gate_meta.c. NULL: none */
	struct package_shaping *shaping; /* package_gate_meta.c. NULL: none */

	/* The file. */
	struct digest expected; /* none: DIGEST_NONE */
	enum package_origin origin;
	char *file_key; /* owned. NULL */
	struct cache_call find;
	struct package_zip *zip;      /* package_gate_sums.c. NULL: none */
	struct package_follow follow; /* package_download.h */
	bool stored;		      /* the cache got all of it */
	unsigned redirects;
	bool is_led; /* the registry redirected it to another name (package_gate_answer.c) */
	bool named;  /* counted among the names that do not exist */

	/* For the record. */
	enum package_result result; /* PACKAGE_RESULT_FAILED until it is known */
	enum package_cached cached;
	bool verified, changed;
	struct digest checksum;
	uint64_t bytes; /* of the file, as the cache or the server had it */
	size_t hidden;
	char newest_hidden[PACKAGE_VERSION_MAX], hidden_reason[PACKAGE_SHAPE_REASON_MAX];
	char rule[PACKAGE_RULE_MAX];
};

/* ---- package_gate.c */

/* Refuse the request: by package_judge(), whose answer is in g->answer. reason: other words than
 * the answer's, NULL: those. Or by the gate itself, for a reason that belongs to this member of
 * `packages`, named behind it. g is freed. */
void package_gate_refuse_judged(struct package_gate *g, const char *reason);
void package_gate_refuse(struct package_gate *g, const char *member, const char *reason);
/* It cannot be answered: not by the policy. g is freed. */
void package_gate_fail(struct package_gate *g, int status, const char *reason);
/* Its bytes are wrong. Before any was sent. reason: a constant. g is freed. */
void package_gate_mismatch(struct package_gate *g, const char *reason);
/* It continues to its server. */
void package_gate_send(struct package_gate *g);
/* Ask the policy with the facts known by now. */
void package_gate_judge(struct package_gate *g);
/* The question about a package that the request asks for, without facts. r: the request, or one
 * version of its name. All forms of the name count. */
struct package_question package_gate_question(const struct package_gate *g,
					      const struct package_request *r);
/* Ask for the view of a document. `then` is called when it is there. any_age: see
 * package_view_wait. */
void package_gate_ask(struct package_gate *g, const struct package_source *source, bool any_age,
		      bool raw, void (*then)(struct package_gate *g));
/* There is no document: answers with the registry's answer, or why there is none. g is freed. */
void package_gate_no_view(struct package_gate *g, const struct package_view *v);
/* Take the document of the view, just arrived. False: it was refused. */
bool package_gate_hold(struct package_gate *g, struct package_view *v);

/* ---- package_gate.c */

/* False: the session has asked for too many names that do not exist. */
bool package_gate_may_ask(const struct package_gate *g);
void package_gate_refuse_new(struct package_gate *g);
/* Do so many bytes of a file fit the limits of the policy? False: it was refused. */
bool package_gate_fits(struct package_gate *g, uint64_t size);
void package_gate_set_budget(struct package_gate *g);
/* May a piece of work (a millisecond) be done for it in this turn? Count it. */
bool package_gate_may_work(struct package_gate *g);
/* Count its name among those that registries may not have, once. The registry has it. */
void package_gate_count_name(struct package_gate *g);
void package_gate_uncount_name(struct package_gate *g);
/* Does the request tell the registry something that the program chose, and that the registry may
 * not have: a name, a path of an archive, a query? */
bool package_gate_tells(const struct package_gate *g);

/* ---- package_gate_scope.c */

/* Set g->scope, g->own_scope and g->own_credentials. */
void package_gate_set_scope(struct package_gate *g);
/* Is it one of the headers that a program sends credentials in? */
bool package_gate_is_credential(struct http1_span name);
/* The program's credentials as header lines, to be wiped and freed. NULL: none, or too many. */
char *package_gate_credentials(const struct gateway *x);

/* ---- package_gate_answer.c: for struct gateway_gate */

bool package_gate_head(struct gateway *x, const struct http1_response *a);
/* Where a redirect of the registry leads. False: the request was refused, since the place is at
 * none of its hosts, or the package of one that the policy refuses. */
bool package_gate_leads(struct package_gate *g, const char *location, unsigned *count,
			struct endpoint *to, char target[PACKAGE_REDIRECT_TARGET_MAX]);
bool package_gate_drops(const struct gateway *x, struct http1_span name);
const char *package_gate_headers(const struct gateway *x);
bool package_gate_wants_json(const struct gateway *x);

/* ---- package_gate_answer.c */

/* May it be redirected to this place? False: the request was refused. */
bool package_gate_may_lead(struct package_gate *g, const struct endpoint *to, const char *target);

/* ---- package_gate_meta.c */

size_t package_gate_memory(const struct gateway *x);

/* Can the document that it asks for be shaped? Which, and how. */
bool package_gate_shapes(const struct package_gate *g, struct package_source *ret);
void package_gate_meta(struct package_gate *g, const struct package_source *source);
void package_gate_meta_end(struct package_gate *g);
/* g->doc is judged, shaped and sent. */
void package_gate_shape(struct package_gate *g);

/* ---- package_gate_meta.c */

/* g->doc is the requested list of versions, or the one that names the latest. */
void package_gate_go(struct package_gate *g);
void package_gate_go_end(struct package_gate *g);
/* The facts known about a version. False: it was not asked for. */
bool package_gate_go_time(const struct package_gate *g, const char *version,
			  struct package_facts *ret, uint64_t *ret_first_seen);

/* Does the program's Accept header name this type? */
bool package_gate_accepts(const struct package_gate *g, const char *type);

/* ---- package_gate_answer.c */

/* Send on a request for a document, with a copy for the cache, or answers with that copy. */
void package_gate_copy(struct package_gate *g);
bool package_gate_copies(const struct package_gate *g);

/* ---- package_gate_answer.c */

/* Is the requested and refused version one that such a page made up? */
bool package_gate_is_invented(const struct package_gate *g);
/* Answer pip's request for a page of a session without packages. */
void package_gate_pip_page(struct package_gate *g, bool json);

/* ---- package_gate_file.c */

void package_gate_file(struct package_gate *g);

/* All is known of the file that can be known: has_facts, facts. It is judged, and sent. */
void package_gate_file_known(struct package_gate *g);
/* As above, with the time of its first sight. */
void package_gate_file_decide(struct package_gate *g);
/* Must the answer have a digest: a file, or what Maven builds with? Not git's packs: git checks
 * them. */
bool package_gate_is_checked(const struct package_gate *g);

/* ---- package_gate_sums.c */

bool package_gate_has_sums(const struct package_gate *g);
/* Find the digest. package_gate_file_known() follows. */
void package_gate_sums(struct package_gate *g);
/* Let held documents go. */
void package_gate_let_go(struct package_gate *g);

/* ---- package_gate_file.c */

/* Does the age of the version count from the first sight? */
bool package_gate_counts_sight(const struct package_gate *g);
/* Find g->first_seen_ms, if it counts. package_gate_file_decide() follows. */
void package_gate_seen(struct package_gate *g);
/* The registry has answered the program's request with a 200. */
void package_gate_seen_now(struct package_gate *g);
/* g->answer refuses it. True: that may be since it was never seen. The registry is asked whether it
 * has it, and package_gate_seen() follows. */
bool package_gate_probe(struct package_gate *g);
void package_gate_probe_end(struct package_gate *g);

/* ---- package_gate_sums.c */

/* Find the digest of an apt package. package_gate_file_known() follows. */
void package_gate_apt(struct package_gate *g);
/* The list of indexes that the request belongs to. Borrows of g. */
struct package_apt_of package_gate_apt_of(const struct package_gate *g);
void package_gate_apt_end(struct package_gate *g);

/* ---- package_gate_sums.c */

/* fd: the cache's file, taken over. -1: it is fetched. */
void package_gate_zip(struct package_gate *g, int fd, uint64_t size);
void package_gate_zip_end(struct package_gate *g);

/* ---- package_record.c */

/* For struct gateway_gate: if the request deserves a record. */
void package_gate_record(struct gateway *x);
