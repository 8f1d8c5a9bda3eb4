/* leaf_certs.c - theory of operation
 *
 * Making a certificate costs one signature, about 100 microseconds. So certificates are kept in
 * memory only, in a cache of those last used. All have the same key and share one bare TLS context:
 * a name costs its certificate and little more. A certificate past half its time is made again at
 * the next request for it.
 *
 * The subjectAltName is built as an object, not in OpenSSL's configuration language: names come
 * from cells. */
#include "lib/net/leaf_certs.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/rand.h"
#include "lib/base/text_hash.h"
#include "lib/net/keypair.h"
#include "lib/net/tls_x509.h"

#define DAY 86400LL
#define CA_DAYS 3650
#define SERVER_DAYS 30
#define RENEW_AFTER (SERVER_DAYS * DAY / 2)
#define HOST_CAP 256
#define BUCKETS 1024

_Static_assert(LEAF_CERTS_PEM_MAX == KEYPAIR_PEM_MAX, "one bound for all texts");

struct leaf_cert_entry {
	struct leaf_cert_entry *chain;	       /* list of the bucket */
	struct leaf_cert_entry *newer, *older; /* list by last use */
	struct tls *tls;
	int64_t renew_at;
	char host[HOST_CAP];
};

struct leaf_certs {
	struct keypair ca;
	EVP_PKEY *key; /* of all certificates */
	struct tls *bare;
	struct leaf_cert_entry *buckets[BUCKETS];
	struct leaf_cert_entry *newest, *oldest;
	size_t n;
};

/* ---- the CA */

int leaf_certs_create_ca(int64_t now, char ret_pem[LEAF_CERTS_PEM_MAX], struct err *e)
{
	static const struct keypair_extension all[] = {
		{ NID_basic_constraints, "critical,CA:TRUE,pathlen:0" },
		{ NID_key_usage, "critical,keyCertSign,cRLSign" },
		{ NID_ext_key_usage, "serverAuth" },
		{ NID_subject_key_identifier, "hash" },
	};
	OWN_PAIR p = { 0 };
	uint32_t number;
	char name[64];

	rand_bytes(&number, sizeof(number));
	/* Numbered, so that an old one differs from a new one. */
	(void)snprintf(name, sizeof(name), "Cordon egress %08x", (unsigned)number);
	if (keypair_make(name, now, CA_DAYS, &p, e) < 0)
		return -1;
	if (!keypair_sign(&p, &p, all, COUNT(all)))
		return keypair_failed(e, "create a CA");
	return keypair_write(p.key, p.cert, ret_pem, e);
}

int leaf_certs_ca_cert(const char *ca_pem, char ret_pem[LEAF_CERTS_PEM_MAX], char ret_link[16],
		       struct err *e)
{
	OWN_PAIR p = { 0 };
	unsigned long hash;
	int known = 0;

	if (keypair_read(ca_pem, &p, e) < 0)
		return -1;
	hash = X509_NAME_hash_ex(X509_get_subject_name(p.cert), NULL, NULL, &known);
	if (!known)
		return keypair_failed(e, "hash the CA's name");
	(void)snprintf(ret_link, 16, "%08lx.0", hash & 0xffffffffUL);
	return keypair_write(NULL, p.cert, ret_pem, e);
}

struct leaf_certs *leaf_certs_new(const char *ca_pem, struct err *e)
{
	struct leaf_certs *m = calloc(1, sizeof(*m));

	if (!m) {
		(void)err_set(e, ERR_LIMIT, "out of memory for certificates");
		return NULL;
	}
	if (keypair_read(ca_pem, &m->ca, e) < 0)
		goto undo;
	if (X509_check_ca(m->ca.cert) != 1) {
		ERR_clear_error();
		(void)err_set(e, ERR_INVALID, "it is not a CA certificate");
		goto undo;
	}
	m->key = EVP_EC_gen("P-256");
	if (!m->key) {
		(void)keypair_failed(e, "make a key");
		goto undo;
	}
	m->bare = tls_server_bare(e);
	if (m->bare)
		return m;
undo:
	leaf_certs_free(m);
	return NULL;
}

/* ---- certificates */

static GENERAL_NAME *leaf_name_of(const char *host)
{
	unsigned char address[sizeof(struct in6_addr)];
	GENERAL_NAME *name = GENERAL_NAME_new();
	ASN1_STRING *text = ASN1_STRING_type_new(V_ASN1_IA5STRING);
	const void *data = host;
	size_t n = strlen(host);
	int type = GEN_DNS;

	if (inet_pton(AF_INET, host, address) == 1)
		n = 4;
	else if (inet_pton(AF_INET6, host, address) == 1)
		n = sizeof(address);
	else
		goto set;
	type = GEN_IPADD;
	data = address;
	ASN1_STRING_free(text);
	text = ASN1_STRING_type_new(V_ASN1_OCTET_STRING);
set:
	if (name && text && ASN1_STRING_set(text, data, (int)n) == 1) {
		GENERAL_NAME_set0_value(name, type, text);
		return name;
	}
	GENERAL_NAME_free(name);
	ASN1_STRING_free(text);
	return NULL;
}

static bool leaf_add_name(X509 *cert, const char *host)
{
	GENERAL_NAMES *names = GENERAL_NAMES_new();
	GENERAL_NAME *name = leaf_name_of(host);
	bool added = false;

	if (names && name && sk_GENERAL_NAME_push(names, name) > 0) {
		name = NULL; /* owned by the list now */
		added = X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0,
					  X509V3_ADD_APPEND) == 1;
	}
	GENERAL_NAME_free(name);
	GENERAL_NAMES_free(names);
	return added;
}

static struct tls *leaf_make_server(struct leaf_certs *m, const char *host, int64_t now,
				    struct err *e)
{
	static const struct keypair_extension all[] = {
		{ NID_basic_constraints, "critical,CA:FALSE" },
		{ NID_key_usage, "critical,digitalSignature" },
		{ NID_ext_key_usage, "serverAuth" },
		{ NID_subject_key_identifier, "hash" },
		{ NID_authority_key_identifier, "keyid:always" },
	};
	OWN_PAIR p = { .key = m->key };

	(void)EVP_PKEY_up_ref(m->key);
	if (keypair_make("Cordon egress", now, SERVER_DAYS, &p, e) < 0)
		return NULL;
	if (!leaf_add_name(p.cert, host) || !keypair_sign(&p, &m->ca, all, COUNT(all))) {
		(void)keypair_failed(e, "sign a certificate");
		return NULL;
	}
	return tls_server_like(m->bare, p.cert, p.key, e);
}

/* ---- the cache */

static size_t leaf_bucket_number(const char *host)
{
	return text_hash(host) % BUCKETS; /* cells choose the names */
}

static struct leaf_cert_entry **leaf_bucket_of(struct leaf_certs *m, const char *host)
{
	return &m->buckets[leaf_bucket_number(host)];
}

static void leaf_unlink_entry(struct leaf_certs *m, struct leaf_cert_entry *x)
{
	*(x->newer ? &x->newer->older : &m->newest) = x->older;
	*(x->older ? &x->older->newer : &m->oldest) = x->newer;
}

static void leaf_link_newest(struct leaf_certs *m, struct leaf_cert_entry *x)
{
	x->newer = NULL;
	x->older = m->newest;
	*(m->newest ? &m->newest->newer : &m->oldest) = x;
	m->newest = x;
}

static void leaf_forget(struct leaf_certs *m, struct leaf_cert_entry *x)
{
	struct leaf_cert_entry **at = leaf_bucket_of(m, x->host);

	while (*at != x)
		at = &(*at)->chain;
	*at = x->chain;
	leaf_unlink_entry(m, x);
	m->n--;
	tls_free(x->tls);
	free(x);
}

static struct leaf_cert_entry *leaf_find(const struct leaf_certs *m, const char *host)
{
	struct leaf_cert_entry *x = m->buckets[leaf_bucket_number(host)];

	while (x && strcmp(x->host, host) != 0)
		x = x->chain;
	return x;
}

/* NULL: out of memory. The certificate is freed, too. */
static struct tls *leaf_keep(struct leaf_certs *m, const char *host, struct tls *tls, int64_t now,
			     struct err *e)
{
	struct leaf_cert_entry **bucket = leaf_bucket_of(m, host), *x = calloc(1, sizeof(*x));

	if (!x) {
		tls_free(tls);
		(void)err_set(e, ERR_LIMIT, "out of memory for a certificate");
		return NULL;
	}
	if (m->n == LEAF_CERTS_CACHE_MAX)
		leaf_forget(m, m->oldest);
	memcpy(x->host, host, strlen(host) + 1);
	x->tls = tls;
	x->renew_at = now + RENEW_AFTER;
	x->chain = *bucket;
	*bucket = x;
	leaf_link_newest(m, x);
	m->n++;
	return tls;
}

struct tls *leaf_certs_server_at(struct leaf_certs *m, const char *host, int64_t now, struct err *e)
{
	struct leaf_cert_entry *x;
	struct tls *made;

	if (host[0] == '\0' || strlen(host) >= HOST_CAP) {
		(void)err_set(e, ERR_INVALID, "a certificate cannot be for this name");
		return NULL;
	}
	x = leaf_find(m, host);
	/* If the clock was set back, the certificate would not be valid yet. */
	if (x && (now >= x->renew_at || now < x->renew_at - RENEW_AFTER - KEYPAIR_EARLIER / 2)) {
		leaf_forget(m, x);
		x = NULL;
	}
	if (x) {
		leaf_unlink_entry(m, x);
		leaf_link_newest(m, x);
		return x->tls;
	}
	made = leaf_make_server(m, host, now, e);
	return made ? leaf_keep(m, host, made, now, e) : NULL;
}

bool leaf_certs_knows(const struct leaf_certs *m, const char *host)
{
	return leaf_find(m, host) != NULL;
}

struct tls *leaf_certs_server(struct leaf_certs *m, const char *host, struct err *e)
{
	return leaf_certs_server_at(m, host, (int64_t)(clock_wall_ms() / 1000), e);
}

void leaf_certs_free(struct leaf_certs *m)
{
	if (!m)
		return;
	while (m->oldest)
		leaf_forget(m, m->oldest);
	tls_free(m->bare);
	EVP_PKEY_free(m->key);
	keypair_free(&m->ca);
	free(m);
}
