/* tls.c - OpenSSL 3 behind functions like read(2) and write(2). Renegotiation is off, so that after
 * the handshake reads wait only for input and writes only for room. */
#include "tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "tls_private.h"
#include "tls_socket.h"

struct tls_conn {
	SSL *ssl;
	bool wants_write;
	bool broken; /* no close_notify after an error */
};

int tls_failed(struct err *e, const char *what, const char *name)
{
	unsigned long code = ERR_peek_error();
	const char *why = code ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error();
	return err_set(e, ERR_INVALID, "%s%s%s: %s", what, name ? " " : "", name ? name : "",
		       why ? why : "no reason given");
}

/* ---- contexts */

SSL_CTX *tls_context(const SSL_METHOD *method, struct err *e)
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
	/* With it a read goes on as long as messages come that hold no data. A peer can send a
	 * million of them (key updates, tickets), and no other connection would be served
	 * meanwhile. */
	SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	return ctx;
}

struct tls *tls_wrap(SSL_CTX *ctx, struct err *e)
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

/* Sets the name that the certificate must be for; without SSL_set1_host() any certificate would be
 * accepted. */
static bool expect_host(SSL *ssl, const char *host)
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
static bool show(SSL *ssl, struct tls *t)
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
	if (host ? !expect_host(c->ssl, host) : !show(c->ssl, t))
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

/* Translates a result <= 0 into errno. Returns 0 at the end of the input, else -1. */
static int give_up(struct tls_conn *c, int result)
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
	ERR_clear_error(); /* SSL_get_error() reads errors that were left in the queue */
	n = SSL_read(c->ssl, buf, cap > INT_MAX ? INT_MAX : (int)cap);
	if (n > 0) {
		c->wants_write = false;
		return n;
	}
	n = give_up(c, n);
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
	if (give_up(c, n) == 0)
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
	if (give_up(c, n) == 0)
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
	if (give_up(c, n) < 0 && errno == EAGAIN)
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
