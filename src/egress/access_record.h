/* access_record.h - one event for each thing a cell tried: to cordond, as JSON, with every known
 * secret masked. doc/network.md lists the members. */
#pragma once

#include "egress_session.h"

enum access_record_kind {
	ATTEMPT_DNS,	 /* a name was asked for */
	ATTEMPT_CONNECT, /* a connection that was refused, passed on or tunnelled, at its end */
	ATTEMPT_REQUEST, /* one HTTP request, at its end */
	ATTEMPT_KINDS
};

struct access_record {
	enum access_record_kind kind;
	uint64_t start_ns;   /* monotonic */
	const char *name;    /* host, normal form; or what was asked for, printable. NULL: none */
	const struct ip *ip; /* where egress connected to, or the address used by the cell; NULL */
	uint16_t port;
	const char *scheme;		   /* "http", "https", "tcp", "dns"; NULL */
	const char *tls;		   /* "pass", "terminate"; NULL: none */
	const char *method, *path, *query; /* requests only */
	const char *qtype;		   /* dns only: "A", "HTTPS", ... */
	bool allowed;
	const struct policy_rule *rule; /* NULL: the default, or decided before any rule */
	const char *reason;		/* of a refusal or a failure; "" or NULL */
	int status;			/* of the answer; 0: none */
	uint64_t bytes_out, bytes_in;
	uint64_t frames_out, frames_in; /* of a WebSocket; 0: it was none */
	uint64_t masked;		/* values covered in the answer */
	const char *secrets;		/* names put in, comma separated; NULL */
	const char *model; /* JSON of llm_call.h's, masked, embedded as "model"; NULL */
	bool proxied;	   /* by the explicit proxy */
};

void access_record_send(struct egress_session *g, const struct access_record *r);
