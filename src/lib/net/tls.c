/* tls.c - OpenSSL 3 behind functions like read(2) and write(2). Renegotiation is off, so that after
 * the handshake reads wait only for input and writes only for room. */
#include "lib/net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "lib/base/err.h"
#include "lib/net/tls_x509.h"

struct tls {
	SSL_CTX *ctx;
	BIO_METHOD *socket;
	bool borrows; /* socket is borrowed: OpenSSL has numbers for about a hundred methods only */
	X509 *cert;   /* used instead of the context's. NULL: none */
	EVP_PKEY *key;
};

/* ---- the socket below: the method of OpenSSL uses write(2), which raises SIGPIPE. This one uses
 * send(2). */

static int tls_socket_write(BIO *b, const char *data, int len)
{
	ssize_t n = send((int)(intptr_t)BIO_get_data(b), data, (size_t)len, MSG_NOSIGNAL);

	BIO_clear_retry_flags(b);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(b);
	return (int)n;
}

static int tls_socket_read(BIO *b, char *buf, int cap)
{
	ssize_t n = recv((int)(intptr_t)BIO_get_data(b), buf, (size_t)cap, 0);

	BIO_clear_retry_flags(b);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(b);
	if (n == 0)
		BIO_set_flags(b, BIO_FLAGS_IN_EOF);
	return (int)n;
}

static long tls_socket_ctrl(BIO *b, int cmd, long num, void *ptr)
{
	if (cmd == BIO_CTRL_FLUSH)
		return 1;
	if (cmd == BIO_CTRL_EOF)
		return BIO_test_flags(b, BIO_FLAGS_IN_EOF) != 0;
	return 0;
}

/* For BIO_new(). Freed with BIO_meth_free(). The BIO's data is the descriptor, borrowed. NULL:
 * out of memory. */
static BIO_METHOD *tls_socket_method(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");

	if (!m || !BIO_meth_set_write(m, tls_socket_write) ||
	    !BIO_meth_set_read(m, tls_socket_read) || !BIO_meth_set_ctrl(m, tls_socket_ctrl)) {
		BIO_meth_free(m);
		return NULL;
	}
	return m;
}

/* Move OpenSSL's first error, the cause of the others, into e, and empty its queue. name: the thing
 * it concerns, or NULL. Return -1. */
static int tls_failed(struct err *e, const char *what, const char *name)
{
	unsigned long code = ERR_peek_error();
	const char *why = code ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error();
	return err_set(e, ERR_INVALID, "%s%s%s: %s", what, name ? " " : "", name ? name : "",
		       why ? why : "no reason given");
}

static SSL_CTX *tls_context(const SSL_METHOD *method, struct err *e)
{
	SSL_CTX *ctx = SSL_CTX_new(method);

	if (!ctx || !SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION)) {
		(void)tls_failed(e, "cannot set up TLS", NULL);
		SSL_CTX_free(ctx);
		return NULL;
	}
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					 SSL_OP_CIPHER_SERVER_PREFERENCE |
					 SSL_OP_CLEANSE_PLAINTEXT); /* it may hold secrets */
	/* RELEASE_BUFFERS: idle connections keep none of OpenSSL's 34 KiB. */
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	/* With it a read continues as long as messages without data come. A peer can send a million
	 * of them (key updates, tickets), and no other connection would be served for so long. */
	SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	return ctx;
}

/* ctx is taken, also on failure. */
static struct tls *tls_wrap(SSL_CTX *ctx, struct err *e)
{
	struct tls *t = calloc(1, sizeof(*t));

	if (t)
		t->socket = tls_socket_method();
	if (!t || !t->socket) {
		(void)err_set(e, ERR_LIMIT, "out of memory for TLS");
		SSL_CTX_free(ctx);
		free(t);
		return NULL;
	}
	t->ctx = ctx;
	return t;
}

/* ---- stapled responses of OCSP (RFC 6066, 8), for a client that verifies servers
 *
 * OpenSSL calls on_response() for every handshake whose server has proved that it has the key of
 * its certificate, after the chain was verified: with the stapled response, or with none. The
 * response comes from the server, and counts only if its signer is the issuer of the certificate,
 * or has a certificate of the issuer for this purpose (OCSP_basic_verify() checks both). No
 * responder is asked over the network: egress connects to servers that the policy allows, and to no
 * others. */

#define STATUS_REQUEST 5       /* the number of the TLS extension */
#define ANSWERS_MAX 16	       /* of one response: one is usual */
#define SKEW_S 300	       /* between clocks */
#define UNDATED_S (7L * 86400) /* a response that says no end is current for so long */

enum status { NONE, GOOD, REVOKED };

static bool ocsp_must_staple(X509 *cert)
{
	TLS_FEATURE *features = X509_get_ext_d2i(cert, NID_tlsfeature, NULL, NULL);
	bool found = false;

	for (int i = 0; features && i < sk_ASN1_INTEGER_num(features); i++)
		if (ASN1_INTEGER_get(sk_ASN1_INTEGER_value(features, i)) == STATUS_REQUEST)
			found = true;
	TLS_FEATURE_free(features);
	return found;
}

/* Is the answer about this certificate? It names it by hashes, with an algorithm of its choice. */
static bool ocsp_is_about(OCSP_SINGLERESP *answer, X509 *cert, X509 *issuer)
{
	const OCSP_CERTID *named = OCSP_SINGLERESP_get0_id(answer);
	OCSP_CERTID *copy = OCSP_CERTID_dup(named), *own = NULL;
	ASN1_OBJECT *algorithm = NULL;
	bool same = false;

	if (copy && OCSP_id_get0_info(NULL, &algorithm, NULL, NULL, copy) == 1)
		own = OCSP_cert_to_id(EVP_get_digestbyobj(algorithm), cert, issuer);
	same = own && OCSP_id_cmp(own, copy) == 0;
	OCSP_CERTID_free(own);
	OCSP_CERTID_free(copy);
	return same;
}

static enum status ocsp_status_of(OCSP_SINGLERESP *answer)
{
	ASN1_GENERALIZEDTIME *from = NULL, *until = NULL;
	int status = OCSP_single_get0_status(answer, NULL, NULL, &from, &until);

	if (status == V_OCSP_CERTSTATUS_REVOKED)
		return REVOKED; /* also if it is not current */
	if (status != V_OCSP_CERTSTATUS_GOOD ||
	    OCSP_check_validity(from, until, SKEW_S, until ? -1 : UNDATED_S) != 1)
		return NONE;
	return GOOD;
}

static enum status ocsp_read_basic(OCSP_BASICRESP *basic, SSL *ssl, X509 *cert)
{
	STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
	X509_STORE *store = SSL_CTX_get_cert_store(SSL_get_SSL_CTX(ssl));
	X509 *issuer = chain && sk_X509_num(chain) > 1 ? sk_X509_value(chain, 1) : cert;
	int n = OCSP_resp_count(basic);

	if (n > ANSWERS_MAX || OCSP_basic_verify(basic, chain, store, 0) != 1)
		return NONE;
	for (int i = 0; i < n; i++)
		if (ocsp_is_about(OCSP_resp_get0(basic, i), cert, issuer))
			return ocsp_status_of(OCSP_resp_get0(basic, i));
	return NONE;
}

static enum status ocsp_read_stapled(SSL *ssl, X509 *cert)
{
	const unsigned char *bytes = NULL;
	long n = SSL_get_tlsext_status_ocsp_resp(ssl, &bytes);
	OCSP_RESPONSE *response = n > 0 ? d2i_OCSP_RESPONSE(NULL, &bytes, n) : NULL;
	OCSP_BASICRESP *basic = response ? OCSP_response_get1_basic(response) : NULL;
	enum status status = basic ? ocsp_read_basic(basic, ssl, cert) : NONE;

	OCSP_BASICRESP_free(basic);
	OCSP_RESPONSE_free(response);
	ERR_clear_error();
	return status;
}

/* 1: the handshake continues. 0: it fails. */
static int on_response(SSL *ssl, void *arg)
{
	X509 *cert = SSL_get0_peer_certificate(ssl);
	enum status status = cert ? ocsp_read_stapled(ssl, cert) : NONE;

	if (status == GOOD || (status == NONE && cert && !ocsp_must_staple(cert)))
		return 1;
	SSL_set_verify_result(ssl, status == REVOKED ? X509_V_ERR_CERT_REVOKED
						     : X509_V_ERR_OCSP_VERIFY_NEEDED);
	return 0;
}

/* Connections of this context ask for a stapled response, and the handshake fails, with a verify
 * result that says why, if
 * - a response that verifies says that the certificate is revoked.
 * - the certificate has the TLS feature status_request ("must-staple", RFC 7633), and there is no
 *   response that verifies, is current, and says that it is good.
 * Without that feature a response that does not verify is ignored. -1: OpenSSL failed. */
static int tls_ocsp_require(SSL_CTX *ctx)
{
	if (SSL_CTX_set_tlsext_status_type(ctx, TLSEXT_STATUSTYPE_ocsp) != 1 ||
	    SSL_CTX_set_tlsext_status_cb(ctx, on_response) != 1)
		return -1;
	return 0;
}

/* ---- contexts of clients: the CAs that servers are verified by */

struct tls *tls_client_new(const char *ca_file, bool insecure, struct err *e)
{
	SSL_CTX *ctx = tls_context(TLS_client_method(), e);

	if (!ctx)
		return NULL;
	if (insecure)
		return tls_wrap(ctx, e);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	if (ca_file ? SSL_CTX_load_verify_locations(ctx, ca_file, NULL) == 1
		    : SSL_CTX_set_default_verify_paths(ctx) == 1)
		return tls_wrap(ctx, e);
	(void)tls_failed(e, "cannot read the CA certificates", ca_file);
	SSL_CTX_free(ctx);
	return NULL;
}

/* Trusts every certificate of the text. OpenSSL's reader fails with "no start line" at its end. */
static int tls_trust_all(X509_STORE *store, BIO *in, struct err *e)
{
	for (;;) {
		X509 *cert = PEM_read_bio_X509(in, NULL, NULL, NULL);
		bool added = cert && X509_STORE_add_cert(store, cert) == 1;

		X509_free(cert);
		if (!cert)
			break;
		if (!added)
			return tls_failed(e, "a CA certificate cannot be used", NULL);
	}
	if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
		return tls_failed(e, "a CA certificate cannot be read", NULL);
	ERR_clear_error();
	return 0;
}

int tls_client_trust(struct tls *t, const char *pem, size_t len, struct err *e)
{
	BIO *in = len > INT_MAX ? NULL : BIO_new_mem_buf(pem, (int)len);
	int result;

	if (!in)
		return err_set(e, ERR_LIMIT, "out of memory");
	result = tls_trust_all(SSL_CTX_get_cert_store(t->ctx), in, e);
	BIO_free(in);
	return result;
}

struct tls *tls_client_new_pem(const char *pem, size_t len, struct err *e)
{
	static const unsigned char ours[] = "\x08http/1.1";
	SSL_CTX *ctx = tls_context(TLS_client_method(), e);
	struct tls *t = ctx ? tls_wrap(ctx, e) : NULL;

	if (!t)
		return NULL;
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	/* In finite-field groups the server chooses the size, up to 10,000 bits: a second of work.
	 */
	if (SSL_CTX_set_cipher_list(ctx, "DEFAULT:!kDHE") != 1 ||
	    SSL_CTX_set_alpn_protos(ctx, ours, sizeof(ours) - 1) != 0 || tls_ocsp_require(ctx) < 0)
		(void)tls_failed(e, "cannot set up TLS", NULL);
	else if (tls_client_trust(t, pem, len, e) == 0)
		return t;
	tls_free(t);
	return NULL;
}

/* ---- contexts of servers: a certificate from a file, or one that leaf_certs.c has made
 * (tls_x509.h) */

/* A client that offers protocols gets HTTP/1.1, or no connection if it is not among them. */
static int tls_choose_protocol(SSL *ssl, const unsigned char **ret, unsigned char *ret_len,
			       const unsigned char *offered, unsigned len, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";
	unsigned char *chosen;

	if (SSL_select_next_proto(&chosen, ret_len, ours, sizeof(ours) - 1, offered, len) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*ret = chosen;
	return SSL_TLSEXT_ERR_OK;
}

/* Refuse a key that needs a password. OpenSSL would ask for it at the terminal. */
static int tls_no_password(char *buf, int size, int rwflag, void *arg)
{
	*(bool *)arg = true;
	return -1;
}

/* The certificate was read before. */
static int tls_use_key(SSL_CTX *ctx, const char *key_file, struct err *e)
{
	bool locked = false, used;

	SSL_CTX_set_default_passwd_cb(ctx, tls_no_password);
	SSL_CTX_set_default_passwd_cb_userdata(ctx, &locked);
	used = SSL_CTX_use_PrivateKey_file(ctx, key_file, SSL_FILETYPE_PEM) == 1;
	SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
	if (used && SSL_CTX_check_private_key(ctx) == 1)
		return 0;
	if (locked) {
		ERR_clear_error();
		return err_set(e, ERR_INVALID, "the key cannot be used: it needs a password");
	}
	if (!used && ERR_GET_LIB(ERR_peek_last_error()) != ERR_LIB_X509)
		return tls_failed(e, "the key cannot be used", NULL);
	ERR_clear_error();
	return err_set(e, ERR_INVALID, "the key is not that of the certificate");
}

static void tls_set_server_rules(SSL_CTX *ctx)
{
	SSL_CTX_set_alpn_select_cb(ctx, tls_choose_protocol, NULL);
	/* The end of a request is in its framing, so a missing close_notify does not matter. A
	 * client must notice it. */
	SSL_CTX_set_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF);
}

static SSL_CTX *tls_server_context(const char *chain_file, const char *key_file, struct err *e)
{
	SSL_CTX *ctx = tls_context(TLS_server_method(), e);

	if (!ctx)
		return NULL;
	if (SSL_CTX_use_certificate_chain_file(ctx, chain_file) != 1)
		(void)tls_failed(e, "the certificate cannot be used", NULL);
	else if (tls_use_key(ctx, key_file, e) == 0) {
		tls_set_server_rules(ctx);
		return ctx;
	}
	SSL_CTX_free(ctx);
	return NULL;
}

struct tls *tls_server_new(const char *chain_file, const char *key_file, struct err *e)
{
	SSL_CTX *ctx = tls_server_context(chain_file, key_file, e);

	return ctx ? tls_wrap(ctx, e) : NULL;
}

struct tls *tls_server_bare(struct err *e)
{
	SSL_CTX *ctx = tls_context(TLS_server_method(), e);

	if (!ctx)
		return NULL;
	tls_set_server_rules(ctx);
	return tls_wrap(ctx, e);
}

struct tls *tls_server_like(struct tls *bare, X509 *cert, EVP_PKEY *key, struct err *e)
{
	struct tls *t = calloc(1, sizeof(*t));

	if (!t || SSL_CTX_up_ref(bare->ctx) != 1) {
		(void)err_set(e, ERR_LIMIT, "out of memory for TLS");
		free(t);
		return NULL;
	}
	*t = (struct tls){ bare->ctx, bare->socket, true, cert, key };
	(void)X509_up_ref(cert);
	(void)EVP_PKEY_up_ref(key);
	return t;
}

int tls_server_renew(struct tls *t, const char *chain_file, const char *key_file, struct err *e)
{
	SSL_CTX *ctx = tls_server_context(chain_file, key_file, e);

	if (!ctx)
		return -1;
	SSL_CTX_free(t->ctx); /* connections keep a reference */
	t->ctx = ctx;
	return 0;
}

const char *tls_server_flaw(const struct tls *t, const char *host)
{
	X509 *cert = SSL_CTX_get0_certificate(t->ctx);
	const char *flaw = NULL;

	if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0)
		flaw = "it is not valid yet";
	else if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
		flaw = "it has expired";
	else if (X509_check_host(cert, host, strlen(host),
				 X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
					 X509_CHECK_FLAG_NEVER_CHECK_SUBJECT,
				 NULL) != 1)
		flaw = "it is for other names";
	ERR_clear_error();
	return flaw;
}

struct tls_conn {
	SSL *ssl;
	bool wants_write;
	bool broken; /* no close_notify after an error */
};

/* ---- contexts */

void tls_free(struct tls *t)
{
	if (!t)
		return;
	SSL_CTX_free(t->ctx);
	if (!t->borrows)
		BIO_meth_free(t->socket);
	X509_free(t->cert);
	EVP_PKEY_free(t->key);
	free(t);
}

/* ---- connections */

/* Set the name that the certificate must be for. Without SSL_set1_host() any certificate would be
 * accepted. */
static bool tls_expect_host(SSL *ssl, const char *host)
{
	unsigned char address[sizeof(struct in6_addr)];
	char name[256]; /* OpenSSL's macro takes no const */
	size_t len = strlen(host);

	if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	if (len >= sizeof(name))
		return false;
	memcpy(name, host, len + 1);
	/* Names count in subjectAltName only: a common name is free text. */
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
				       X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

/* Tickets are valid with the certificate they were issued with. */
static bool tls_show(SSL *ssl, struct tls *t)
{
	unsigned char id[SSL_MAX_SID_CTX_LENGTH];
	unsigned n = sizeof(id);

	if (!t->cert)
		return true;
	return X509_digest(t->cert, EVP_sha256(), id, &n) == 1 &&
	       SSL_set_session_id_context(ssl, id, n) == 1 &&
	       SSL_use_cert_and_key(ssl, t->cert, t->key, NULL, 1) == 1;
}

struct tls_conn *tls_open(struct tls *t, int fd, const char *host, struct err *e)
{
	struct tls_conn *c = calloc(1, sizeof(*c));
	BIO *bio = NULL;

	if (!c)
		goto undo;
	c->ssl = SSL_new(t->ctx);
	bio = BIO_new(t->socket);
	if (!c->ssl || !bio)
		goto undo;
	BIO_set_data(bio, (void *)(intptr_t)fd);
	BIO_set_init(bio, 1);
	if (host ? !tls_expect_host(c->ssl, host) : !tls_show(c->ssl, t))
		goto undo;
	SSL_set_bio(c->ssl, bio, bio);
	if (host)
		SSL_set_connect_state(c->ssl);
	else
		SSL_set_accept_state(c->ssl);
	return c;
undo:
	(void)tls_failed(e, "cannot open a TLS connection", NULL);
	BIO_free(bio);
	if (c)
		SSL_free(c->ssl);
	free(c);
	return NULL;
}

void tls_close(struct tls_conn *c)
{
	if (!c)
		return;
	if (!c->broken && SSL_is_init_finished(c->ssl))
		(void)SSL_shutdown(c->ssl);
	ERR_clear_error();
	SSL_free(c->ssl);
	free(c);
}

void tls_break(struct tls_conn *c)
{
	c->broken = true;
}

/* Translate a result <= 0 into errno. Return 0 at the end of the input, else -1. */
static int tls_give_up(struct tls_conn *c, int result)
{
	int reason = SSL_get_error(c->ssl, result);
	int saved = errno;

	c->wants_write = reason == SSL_ERROR_WANT_WRITE;
	switch (reason) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		ERR_clear_error();
		errno = EAGAIN;
		return -1;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		c->broken = true;
		errno = saved ? saved : ECONNRESET;
		return -1;
	default:
		c->broken = true;
		errno = EPROTO;
		return -1;
	}
}

ssize_t tls_read(struct tls_conn *c, void *buf, size_t cap)
{
	int n;

	errno = 0;
	ERR_clear_error(); /* SSL_get_error() reads errors left in the queue */
	n = SSL_read(c->ssl, buf, cap > INT_MAX ? INT_MAX : (int)cap);
	if (n > 0) {
		c->wants_write = false;
		return n;
	}
	n = tls_give_up(c, n);
	ERR_clear_error();
	return n;
}

ssize_t tls_write(struct tls_conn *c, const void *data, size_t len)
{
	int n;

	errno = 0;
	ERR_clear_error();
	n = SSL_write(c->ssl, data, len > INT_MAX ? INT_MAX : (int)len);
	if (n > 0) {
		c->wants_write = false;
		return n;
	}
	if (tls_give_up(c, n) == 0)
		errno = EPIPE;
	ERR_clear_error();
	return -1;
}

int tls_shut(struct tls_conn *c)
{
	int n;

	errno = 0;
	ERR_clear_error();
	n = SSL_shutdown(c->ssl);
	if (n >= 0) { /* 0: the peer's close_notify has not come */
		c->wants_write = false;
		return 0;
	}
	if (tls_give_up(c, n) == 0)
		errno = EPIPE;
	ERR_clear_error();
	return -1;
}

int tls_handshake(struct tls_conn *c, struct err *e)
{
	long verdict;
	int n;

	errno = 0;
	ERR_clear_error();
	n = SSL_do_handshake(c->ssl);
	if (n == 1) {
		c->wants_write = false;
		return 0;
	}
	if (tls_give_up(c, n) < 0 && errno == EAGAIN)
		return -1;
	verdict = SSL_get_verify_result(c->ssl);
	if (verdict != X509_V_OK)
		(void)err_set(e, ERR_DENIED, "the server's certificate: %s",
			      X509_verify_cert_error_string(verdict));
	else
		(void)tls_failed(e, "TLS handshake", NULL);
	ERR_clear_error();
	errno = EPROTO;
	return -1;
}

bool tls_wants_write(const struct tls_conn *c)
{
	return c->wants_write;
}

bool tls_is_established(const struct tls_conn *c)
{
	return SSL_is_init_finished(c->ssl);
}

bool tls_has_pending(const struct tls_conn *c)
{
	return SSL_pending(c->ssl) > 0;
}
