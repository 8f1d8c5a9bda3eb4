/* policy.h - which hosts a session may contact: one document, read once, and asked about every
 * name, connection and request. Pure: no clock, no I/O. doc/policy.md describes the document for
 * its authors.
 *
 * Rules are tried in order, and the first that matches decides; without a match the answer is a
 * refusal (unless "default" is allow). Names are compared in their normal form (host.h), and so are
 * paths (path.h): the form that was compared is sent on.
 *
 * Three layers are merged into one document: node, tenant, session, in that order. The "ceiling" of
 * a layer is a list of rules that must also match what lower layers allow. Only the node's layer
 * can name private addresses that may be reached ("private"), whatever rules say. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "http1.h"
#include "ip.h"

#define POLICY_TEXT_MAX (2U << 20)
#define POLICY_RULES_MAX 4096
#define POLICY_NAME_MAX 64
#define POLICY_REASON_MAX 256

struct json_t; /* of jansson */
struct policy;

enum policy_layer { POLICY_NODE, POLICY_TENANT, POLICY_SESSION, POLICY_LAYERS };
enum policy_class {
	POLICY_OTHER,
	POLICY_PACKAGES,
	POLICY_DOCS,
	POLICY_API,
	POLICY_MODEL,
	POLICY_CLASSES
};
const char *policy_class_name(enum policy_class c);

enum policy_tls {
	POLICY_TLS_AUTO,      /* terminated if a rule inspects requests, else relayed */
	POLICY_TLS_PASS,      /* never terminated: for clients that pin certificates */
	POLICY_TLS_TERMINATE, /* always terminated */
};

enum policy_choice { POLICY_UNSET, POLICY_NO, POLICY_YES };

/* 0: no limit. Of a policy (for the session) or of a rule (for what that rule allowed). */
struct policy_limits {
	uint64_t connections;	      /* at a time */
	uint64_t requests_per_minute; /* requests, or connections if requests are not inspected */
	uint64_t bytes_out, bytes_in; /* in total */
	uint64_t body_bytes;	      /* of one request */
};

struct policy_header {
	const char *name, *value; /* value may hold ${secret.NAME} */
};

struct policy_rule {
	const char *name; /* as given, or "session rules[3]"; for display, and perhaps not unique */
	enum policy_layer layer;
	size_t number; /* its index in the merged document, for tables by rule */
	enum policy_class class;
	bool allow;
	const char *reason; /* "": none was given */
	enum policy_tls tls;
	bool raw; /* "protocol": "tcp": bytes of any kind, none are inspected */
	struct policy_limits limits;
	const struct policy_header *set; /* headers set in requests it allows */
	size_t nset;
	const char *const *secrets; /* names of those that may be put into requests it allows */
	size_t nsecrets;
	enum policy_choice websocket; /* may requests become WebSockets? */
	bool prompts;		      /* of model calls: prompt and completion are recorded */
	const void *match;	      /* private to src/policy */
};

/* The target of a connection or request. host: in its normal form; NULL: an address was used. */
struct policy_target {
	const char *host;
	struct ip ip; /* if host is NULL */
	uint16_t port;
};

/* One request. Path and query as returned by path_normal(). */
struct policy_request {
	bool tls;			   /* over terminated TLS; else plain */
	const char *method, *path, *query; /* query: NULL if there is none */
	const struct http1_header *headers;
	size_t nheaders;
	bool websocket; /* it asks for a WebSocket */
};

enum policy_verdict {
	POLICY_REFUSE,
	POLICY_PERMIT,
	POLICY_INSPECT, /* it depends on the requests */
};

struct policy_answer {
	enum policy_verdict verdict;
	const struct policy_rule *rule; /* NULL: the default. With LOOK: the first that may match */
	bool raw; /* of a connection that is permitted: bytes of any kind are allowed */
	/* Of a request that is permitted: rules for its target inspect requests, so it must mean
	 * the same to the server as to the rules. */
	bool inspected;
	/* Permitted (or refused without TLS) only because the host is one of a registry that a
	 * packages member lists: rule is NULL, and requests must be judged by package_judge.h. */
	bool by_registry;
	char reason[POLICY_REASON_MAX]; /* of a refusal: for the program in the cell and the record
					 */
};

/* Reads a document. layer POLICY_LAYERS: a merged one. Of a single layer, only its own rules are
 * read: what it extends is checked, and added by policy_merge(). Errors name the member and the
 * rule: "rules[3].host: ...". The caller frees it. */
int policy_read(const char *text, size_t len, enum policy_layer layer, struct policy **ret,
		struct err *e) MUST_USE;
/* As policy_read(), for a parsed document, of which the policy keeps a reference. Lockfiles in the
 * document of a layer become pins there; of a merged document, the packages member is removed. */
int policy_read_json(struct json_t *root, enum policy_layer layer, struct policy **ret,
		     struct err *e) MUST_USE;
void policy_free(struct policy *p);

/* Merges up to three documents; NULL or "" for an absent one. "extends": presets are written out
 * here. The caller frees *ret. A document whose session layer is absent, or only extends "none",
 * allows nothing of its own. */
int policy_merge(const char *const layers[POLICY_LAYERS], char **ret, struct err *e) MUST_USE;

/* Calls on_rule for each rule that may put secrets into requests to the target, whatever the port,
 * method and path of a request. */
void policy_secrets(const struct policy *p, const struct policy_target *to,
		    void (*on_rule)(const struct policy_rule *rule, void *arg), void *arg);

/* Does this name exist for the session: may anything be allowed there? */
void policy_name(const struct policy *p, const char *host, struct policy_answer *ret);
/* A connection. PERMIT: this rule allows everything there (if it is not raw: TLS with the name in
 * its ClientHello, or HTTP with the name in Host). */
void policy_connect(const struct policy *p, const struct policy_target *to,
		    struct policy_answer *ret);
/* A request: never POLICY_INSPECT. */
void policy_ask(const struct policy *p, const struct policy_target *to,
		const struct policy_request *r, struct policy_answer *ret);

/* Does the rule compare a header of this name? */
bool policy_compares(const struct policy_rule *r, struct http1_span header);

/* May egress connect to this address at all? Public ones, and those that the operator named in
 * "private" (metadata services only by their exact address), whatever rules say. */
bool policy_reachable(const struct policy *p, const struct ip *ip);

/* Warns of what is probably a mistake, one sentence per call: rules that are never reached, private
 * addresses that stay unreachable. */
void policy_check(const struct policy *p, void (*on_warning)(const char *text, void *arg),
		  void *arg);

/* A name that was allowed resolved to this address: do the rules for addresses deny it? A rule that
 * denies the address counts, unless one before it allows the name or the address for all requests.
 * to->host NULL: there is no name. False: *ret_rule denies it. */
bool policy_resolved(const struct policy *p, const struct policy_target *to, const struct ip *ip,
		     const struct policy_rule **ret_rule);

/* Has the operator named exactly this address ("private")? */
bool policy_names(const struct policy *p, const struct ip *ip);

size_t policy_rules(const struct policy *p);
const struct policy_rule *policy_rule(const struct policy *p, size_t number);
const struct policy_limits *policy_limits(const struct policy *p);
/* Do names that are refused resolve all the same ("refused_names": "answer")? Connections to them
 * are then refused with the reason. */
bool policy_answers_refused(const struct policy *p);
/* Calls on_host for every exact host name of an allow rule, in order, and for the hosts of listed
 * registries. */
void policy_each_host(const struct policy *p, void (*on_host)(const char *host, void *arg),
		      void *arg);

struct policy_proxy {
	const char *host; /* NULL: no proxy, egress connects directly */
	uint16_t port;
	const char *user, *password; /* "": none */
	enum policy_layer layer;     /* the layer that set it */
};
/* "proxy": a SOCKS5 proxy that all connections go through. */
const struct policy_proxy *policy_proxy(const struct policy *p);

/* The document of a preset: "none", "deny", "internet", "pypi", "npm", "debian", "packages",
 * "github-read", "openai", "anthropic"; NULL: no such preset. */
const char *policy_preset(const char *name);
/* i counts from 0; NULL at the end. */
const char *policy_preset_name(size_t i, const char **ret_summary);
