/* policy_private.h - the structures of a document that was read. Private to src/policy.
 *
 *   policy_read.c        the document; policy_value.c reads single values
 *   policy_rule*.c       one rule: what it matches (_match), what it does (_effects)
 *   policy_set_headers.c, policy_proxy.c
 *                        checks that need all rules
 *   policy_merge.c       layers to one document; policy_preset.c, policy_memo.c (cache)
 *   policy_select.c      settings: names of presets, or a document
 *   policy_list.c        finds the rules for a target
 *   policy_decide.c      decides about names, connections and requests; policy_request.c
 *                        compares requests, policy_reason.c writes reasons
 *   policy_resolved.c, policy_secrets.c, policy_query.c
 *                        other questions about a policy
 *   host.c, path.c, glob.c, fold.c
 *                        normal forms and patterns, without policies
 *   package*.c           packages, see packages_private.h
 *   access_record_text.c reads records that egress sent */
#pragma once

#include <jansson.h>

#include "host.h"
#include "policy.h"

#define POLICY_ITEMS_MAX 256   /* of one list in a rule */
#define POLICY_HOSTS_MAX 16384 /* of a document */
#define POLICY_SLOW_MAX 256    /* patterns of a document that glob_is_slow() */
#define POLICY_LABELS_MAX 130  /* lists in which one name can be found */

static inline void policy_json_free_(json_t **j)
{
	json_decref(*j);
}
#define OWN_POLICY_JSON __attribute__((cleanup(policy_json_free_))) json_t

struct policy_ports {
	uint16_t first, last;
};

/* A parameter of a query or a header, and the pattern for its value. */
struct policy_pair {
	const char *name, *glob;
	const char *folded; /* name of a parameter, folded by fold_parameter() */
};

/* A block of addresses, in words: an address is in it if (address & mask) == want. */
struct policy_net {
	uint64_t mask[2], want[2];
};

/* A pattern of paths, and the first bytes before its first star (or all of it with its NUL),
 * masked: they tell most paths apart without comparing texts. */
#define POLICY_HEAD_WORDS 3
struct policy_path {
	const char *text;
	uint64_t mask[POLICY_HEAD_WORDS], want[POLICY_HEAD_WORDS];
};

/* A request, with the first bytes of its path, padded with zeroes. policy_request_forget() frees
 * what was added while rules were compared. */
struct policy_seen {
	const struct policy_request *request;
	uint64_t head[POLICY_HEAD_WORDS];
	bool overridden; /* a parameter "_method" names another method */
	char *loose;	 /* owned: the path folded by fold_path(); NULL: not needed so far */
	uint64_t loose_head[POLICY_HEAD_WORDS];
};

/* The first members exclude most rules, and are in one cache line. */
struct policy_match {
	const struct policy_ports *ports;
	size_t nports;				 /* 0: any */
	const struct policy_path *paths, *loose; /* loose: as many, folded, of a rule that denies */
	size_t npaths;
	size_t nmethods, nquery, nheaders;
	bool inspects; /* inspects requests: has methods, paths, query or headers */
	bool anywhere; /* neither host nor cidr was given */
	bool allow;    /* copy of the rule's */
	const char *const *methods;
	const struct policy_pair *query, *headers;
	size_t nhosts, nnets;
	const struct host_pattern *hosts;
	const struct ip_net *nets;
	const struct policy_net *fast_nets; /* the same blocks in words */
};

/* The rules for one pattern of names: their numbers, ascending. */
struct policy_entry {
	const struct host_pattern *key;
	uint32_t hash;
	uint32_t next; /* next entry of the slot; UINT32_MAX: the last */
	uint32_t *rules;
	size_t n;
};

/* Rules, tried in order. */
struct policy_list {
	struct policy_rule *rules;
	const struct policy_match **matches; /* those of the rules, close to each other */
	size_t n;
	struct policy_entry *entries;
	size_t nentries;
	uint32_t *slots; /* a power of two in number */
	size_t nslots;
	uint32_t *names, *addresses; /* rules for every name; rules for addresses */
	size_t nnames, naddresses;
	bool given; /* a ceiling: there is one */
};

struct policy {
	json_t *root, *expanded; /* most texts are borrowed from them */
	struct policy_chunk *chunks;
	struct policy_list list;
	struct policy_list ceilings[POLICY_LAYERS];
	bool merged;
	bool checked; /* its layers were read one by one just now: long lists are not read again */
	bool allow;   /* "default" */
	enum policy_layer allow_layer;
	bool answers_refused; /* "refused_names" */
	struct policy_limits limits;
	struct policy_proxy proxy;
	const struct ip_net *private_nets;
	size_t nprivate;
	size_t hosts, slow;			/* counted against the maxima */
	const struct packages_policy *packages; /* NULL: no layer has a packages member */
};

/* policy_read.c: checks a merged document whose layers were read. Nothing can be asked of the
 * packages of the result, which is for checks only. */
int policy_read_checked(json_t *root, struct err *e) MUST_USE;

/* Zeroed memory that is freed with the policy. NULL: out of memory. */
void *policy_alloc(struct policy *p, size_t n, size_t size);
int policy_no_memory(struct err *e);

extern const char *const policy_layer_names[POLICY_LAYERS];

/* policy_value.c: reads members of documents. at: "" or the place, such as "rules[3]". Each fails
 * with the place in the message. */
int policy_value_fail(struct err *e, const char *at, const char *name, const char *fmt, ...)
	PRINTF(4, 5);
int policy_value_known(const json_t *object, const char *const *names, size_t n, const char *at,
		       struct err *e) MUST_USE;
/* v NULL: *ret is not changed. Printable, 1 to max bytes. */
int policy_value_text(const json_t *v, size_t max, const char *at, const char *name,
		      const char **ret, struct err *e) MUST_USE;
int policy_value_bool(const json_t *v, const char *at, const char *name, bool *ret,
		      struct err *e) MUST_USE;
/* Reads one of these words; *ret is its index. */
int policy_value_word(const json_t *v, const char *const *words, size_t n, const char *at,
		      const char *name, size_t *ret, struct err *e) MUST_USE;
/* A text or a list of texts. */
int policy_value_texts(struct policy *p, const json_t *v, size_t max, const char *at,
		       const char *name, const char *const **ret, size_t *ret_n,
		       struct err *e) MUST_USE;
int policy_value_nets(struct policy *p, const json_t *v, const char *at, const char *name,
		      const struct ip_net **ret, size_t *ret_n, struct err *e) MUST_USE;
int policy_value_limits(const json_t *v, const char *at, struct policy_limits *ret,
			struct err *e) MUST_USE;

/* policy_rule.c */
/* "HOST[:PORT][/PATH]" as an object: a new reference. NULL: malformed. */
json_t *policy_rule_expand(const char *text);
int policy_rule_read(struct policy *p, json_t *v, const char *at, bool ceiling,
		     struct policy_rule *ret, struct err *e) MUST_USE;
/* policy_rule_match.c: the members that say what a rule is for. */
int policy_rule_match(struct policy *p, const json_t *v, const char *at, bool allow,
		      struct policy_match *ret, struct err *e) MUST_USE;
/* policy_rule_effects.c: the members that say what happens to requests it allows. */
int policy_rule_effects(struct policy *p, const json_t *v, const char *at, struct policy_rule *r,
			struct err *e) MUST_USE;

/* policy_list.c: an index over list->rules, and a walk over the rules for a target. */
int policy_list_index(struct policy *p, struct policy_list *list, struct err *e) MUST_USE;
bool policy_list_fits_port(const struct policy_match *m, uint16_t port);
/* Is the address in a block of the rule? For a rule that denies, also the address that a gateway
 * would translate it to. */
bool policy_list_fits_block(const struct policy_match *m, const struct ip *ip);

struct policy_walk {
	const struct policy_list *list;
	struct policy_cursor {
		const uint32_t *at, *end;
	} cursors[POLICY_LABELS_MAX];
	size_t n;
	uint32_t last;
	bool started;
	const struct policy_seen *seen;	  /* the request, to skip most rules; or NULL */
	const struct policy_match *match; /* of the rule found last */
	const struct policy_target *to;	  /* ports are not compared if any_port */
	bool any_port;
};
void policy_list_walk(const struct policy_list *list, const struct policy_target *to, bool any_port,
		      struct policy_walk *ret);
/* The next rule that is for the target; NULL at the end. */
const struct policy_rule *policy_list_next(struct policy_walk *w);

/* policy_proxy.c; called after rules and ceilings were read. */
int policy_proxy_read(struct policy *p, const json_t *v, enum policy_layer layer,
		      struct err *e) MUST_USE;

/* policy_set_headers.c; called after rules and ceilings were read. */
int policy_set_headers_check(const struct policy *p, struct err *e) MUST_USE;

/* policy_request.c */
void policy_request_see(const struct policy_request *q, struct policy_seen *ret);
void policy_request_forget(struct policy_seen *s);
bool policy_request_fits(const struct policy_match *m, struct policy_seen *s);
void policy_request_compile(const char *pattern, struct policy_path *ret);

/* policy_reason.c */
void policy_reason_rule(const struct policy_target *to, const struct policy_rule *r,
			struct policy_answer *ret);
/* q NULL: a name or a connection. */
void policy_reason_none(const struct policy *p, const struct policy_target *to,
			const struct policy_request *q, struct policy_answer *ret);
void policy_reason_ceiling(const struct policy_target *to, enum policy_layer layer, const char *why,
			   struct policy_answer *ret);
/* The target is allowed, but not with bytes of any kind. */
void policy_reason_ceiling_raw(const struct policy_target *to, struct policy_answer *ret);
/* The rule's connections would not be read, but the packages member of a layer above must see them.
 */
void policy_reason_packages(const struct policy_target *to, enum policy_layer layer,
			    struct policy_answer *ret);
/* WebSockets: the rule denies them, or (rule NULL) the ceiling of a layer does not allow them. */
void policy_reason_websocket(const struct policy_target *to, const struct policy_rule *r,
			     enum policy_layer layer, struct policy_answer *ret);
void policy_reason_plain(const struct policy_target *to, const struct policy_rule *r,
			 struct policy_answer *ret);

static inline const struct policy_match *policy_match_of(const struct policy_rule *r)
{
	return r->match;
}
