/* access_record.h - the record of one attempt of a cell to use the network: a DNS query, a
 * connection, a request, a package or datagrams. Called by datagrams.c, dns.c, flow.c,
 * flow_accept.c, gateway_end.c and package_record.c when the attempt is decided or over.
 *
 * It is written as JSON, with the value of every secret of the session masked, and queued for
 * cordond as EGRESS_RECORD. doc/network.md lists the members. Cordond reads them in
 * lib/policy/access_record_text.c, so both change together. */
#pragma once

#include "egress/control/egress_session.h"

enum access_record_kind {
	ACCESS_RECORD_DNS,	/* a DNS query */
	ACCESS_RECORD_CONNECT,	/* a refused, relayed or tunnelled connection, when it ends */
	ACCESS_RECORD_REQUEST,	/* one HTTP request, when it ends */
	ACCESS_RECORD_PACKAGE,	/* a request for a package, beside its ACCESS_RECORD_REQUEST */
	ACCESS_RECORD_DATAGRAM, /* datagrams to one destination that reached nothing */
	ACCESS_RECORD_KINDS
};

struct owner; /* owner_link.h */

struct access_record {
	enum access_record_kind kind;
	uint64_t start_ns;	   /* monotonic */
	uint64_t end_ns;	   /* 0: now */
	const struct owner *owner; /* the program that made it. NULL: not asked for */
	/* host in its normal form, or the name of a query, printable. NULL: none */
	const char *name;
	const struct ip *ip; /* the address egress connected to, or the one the cell used. NULL */
	uint16_t port;
	const char *scheme;		   /* "http", "https", "tcp", "udp", "dns". NULL */
	const char *tls;		   /* "pass", "terminate". NULL: none */
	const char *method, *path, *query; /* requests only */
	const char *qtype;		   /* dns only: "A", "HTTPS", ... */
	bool allowed;
	const struct policy_rule *rule; /* NULL: the default, or decided before any rule */
	const char *reason;		/* of a refusal or failure. "" or NULL: none */
	const char *asked; /* of a package: the path, which the reason may repeat. NULL: none */
	int status;	   /* of the answer. 0: none */
	uint64_t bytes_out, bytes_in;
	uint64_t frames_out, frames_in; /* of a WebSocket. Both 0: no frames */
	uint64_t datagrams;		/* how many. 0: it is not about datagrams */
	uint64_t masked;		/* secret values masked in the answer */
	/* names of the secrets put in, comma separated. NULL: none */
	const char *secrets;
	const char *model;   /* JSON of llm_call.h, masked, embedded as "model". NULL: none */
	const char *package; /* JSON of package_record.c, masked. NULL: none */
	bool proxied;	     /* came through the explicit proxy */
	bool internal;	     /* made by egress itself, for a package */
};

void access_record_send(struct egress_session *session, const struct access_record *r);
