/* Goal: what the CA makes is what clients accept, what is not what it would make is noticed,
 * and a client that trusts it trusts it for its names only. */
#include "lib/net/selfsign.h"

#include <openssl/core_names.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>

#include "support.h"

#define NOW 1800000000LL
#define DAY SELFSIGN_DAY

static char own_ca[SELFSIGN_PEM_MAX], server[SELFSIGN_PEM_MAX];

static void make(const char *domain)
{
	struct err e = { 0 };

	CHECK(selfsign_create_ca(domain, NOW, own_ca, &e) == 0);
	CHECK(selfsign_server(own_ca, domain, NOW, server, &e) == 0);
}

static X509 *read_cert(const char *pem)
{
	BIO *in = BIO_new_mem_buf(pem, -1);
	X509 *cert = PEM_read_bio_X509(in, NULL, NULL, NULL);

	CHECK(cert != NULL);
	BIO_free(in);
	return cert;
}

/* As a strict client does it that trusts the CA: X509_V_OK, or what it objects to. */
static int verify(const char *ca_pem, const char *cert_pem, const char *host, int64_t at)
{
	X509 *ca = read_cert(ca_pem), *cert = read_cert(cert_pem);
	X509_STORE *trusted = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	X509_VERIFY_PARAM *rules;
	int verdict;

	CHECK(X509_STORE_add_cert(trusted, ca) == 1);
	CHECK(X509_STORE_CTX_init(ctx, trusted, cert, NULL) == 1);
	rules = X509_STORE_CTX_get0_param(ctx);
	CHECK(X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_X509_STRICT) == 1);
	CHECK(X509_VERIFY_PARAM_set_purpose(rules, X509_PURPOSE_SSL_SERVER) == 1);
	CHECK(X509_VERIFY_PARAM_set1_host(rules, host, 0) == 1);
	X509_VERIFY_PARAM_set_time(rules, (time_t)at);
	(void)X509_verify_cert(ctx);
	verdict = X509_STORE_CTX_get_error(ctx);
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(trusted);
	X509_free(ca);
	X509_free(cert);
	return verdict;
}

static bool takes_server(const char *domain, int64_t now, struct err *e)
{
	int64_t renew_at;

	return selfsign_check_server(own_ca, server, domain, now, &renew_at, e) == 0;
}

static void what_is_made_is_taken(void)
{
	char public[SELFSIGN_PEM_MAX];
	int64_t renew_at = 0;
	struct err e;

	make("cordon.localhost");
	CHECK(selfsign_check_ca(own_ca, "cordon.localhost", NOW, &e) == 0);
	CHECK(selfsign_check_server(own_ca, server, "cordon.localhost", NOW, &renew_at, &e) == 0);
	CHECK(renew_at == NOW + (SELFSIGN_SERVER_DAYS - SELFSIGN_RENEW_DAYS) * DAY);
	CHECK(selfsign_ca_cert(own_ca, public, &e) == 0);
	CHECK(strstr(public, "PRIVATE") == NULL);
	CHECK(verify(public, server, "cordon.localhost", NOW) == X509_V_OK);
	CHECK(verify(public, server, "api.cordon.localhost", NOW) == X509_V_OK);
	CHECK(verify(public, server, "3000-ixyz.cordon.localhost", NOW) == X509_V_OK);
	CHECK(verify(public, server, "localhost", NOW) == X509_V_OK);
	CHECK(verify(public, server, "a.b.cordon.localhost", NOW) == X509_V_ERR_HOSTNAME_MISMATCH);
	CHECK(verify(public, server, "example.com", NOW) == X509_V_ERR_HOSTNAME_MISMATCH);
	CHECK(verify(public, server, "localhost", NOW - 2 * DAY) == X509_V_ERR_CERT_NOT_YET_VALID);
	CHECK(verify(public, server, "localhost", NOW + 91 * DAY) == X509_V_ERR_CERT_HAS_EXPIRED);
}

/* With the key of the CA anything can be signed, but clients reject it. */
static void the_ca_is_valid_for_its_names_only(void)
{
	struct err e;

	make("a.example.org");
	CHECK(selfsign_server(own_ca, "example.com", NOW, server, &e) == 0);
	CHECK(verify(own_ca, server, "example.com", NOW) == X509_V_ERR_PERMITTED_VIOLATION);
	CHECK(verify(own_ca, server, "localhost", NOW) == X509_V_ERR_PERMITTED_VIOLATION);
	CHECK(selfsign_server(own_ca, "example.org", NOW, server, &e) == 0);
	CHECK(verify(own_ca, server, "example.org", NOW) == X509_V_ERR_PERMITTED_VIOLATION);
	CHECK(selfsign_server(own_ca, "b.a.example.org", NOW, server, &e) == 0);
	CHECK(verify(own_ca, server, "b.a.example.org", NOW) == X509_V_OK);
}

static void another_domain_is_noticed(void)
{
	struct err e;

	make("a.example.org");
	CHECK(selfsign_check_ca(own_ca, "b.example.org", NOW, &e) < 0);
	CHECK_STR(e.msg, "it is for another domain");
	CHECK(!takes_server("b.example.org", NOW, &e));
	CHECK_STR(e.msg, "it is for other names");
}

static void another_ca_is_noticed(void)
{
	struct err e;

	make("a.example.org");
	CHECK(selfsign_create_ca("a.example.org", NOW, own_ca, &e) == 0);
	CHECK(!takes_server("a.example.org", NOW, &e));
	CHECK_STR(e.msg, "it is signed by another CA");
	/* Nor may one take the other's place. */
	CHECK(selfsign_check_ca(server, "a.example.org", NOW, &e) < 0);
	memcpy(server, own_ca, sizeof(server));
	CHECK(!takes_server("a.example.org", NOW, &e));
}

static void time_runs_out(void)
{
	struct err e;

	make("a.example.org");
	CHECK(takes_server("a.example.org", NOW + 60 * DAY - 1, &e));
	CHECK(!takes_server("a.example.org", NOW + 60 * DAY, &e));
	CHECK_STR(e.msg, "it has less than 30 days left");
	CHECK(!takes_server("a.example.org", NOW + 1000 * DAY, &e));
	CHECK(!takes_server("a.example.org", NOW - 2 * DAY, &e));
	CHECK_STR(e.msg, "it is not valid yet");
	CHECK(selfsign_check_ca(own_ca, "a.example.org", NOW + 3559 * DAY, &e) == 0);
	CHECK(selfsign_check_ca(own_ca, "a.example.org", NOW + 3561 * DAY, &e) < 0);
	CHECK_STR(e.msg, "it has less than 90 days left");
}

/* The key of one with the certificate of the other. */
static void keys_are_not_mixed(void)
{
	char mixed[2 * SELFSIGN_PEM_MAX];
	const char *cert = strstr(own_ca, "-----BEGIN CERT");
	struct err e;

	make("a.example.org");
	cert = strstr(own_ca, "-----BEGIN CERT");
	CHECK(cert != NULL);
	(void)snprintf(mixed, sizeof(mixed), "%.*s%s",
		       (int)(strstr(server, "-----BEGIN CERT") - server), server, cert);
	CHECK(selfsign_check_ca(mixed, "a.example.org", NOW, &e) < 0);
	CHECK_STR(e.msg, "it is not a private key with its certificate");
}

/* The secret number of the key in it. */
static BIGNUM *read_secret(const char *pem)
{
	BIO *in = BIO_new_mem_buf(pem, -1);
	EVP_PKEY *key = PEM_read_bio_PrivateKey(in, NULL, NULL, NULL);
	BIGNUM *secret = NULL;

	CHECK(key != NULL);
	CHECK(EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_PRIV_KEY, &secret) == 1);
	EVP_PKEY_free(key);
	BIO_free(in);
	return secret;
}

/* Some bytes mean nothing to OpenSSL (line ends, a version of the key). */
static bool is_the_same(const char *pem, const char *as)
{
	X509 *cert = read_cert(pem), *as_cert = read_cert(as);
	BIGNUM *secret = read_secret(pem), *as_secret = read_secret(as);
	bool same = X509_cmp(cert, as_cert) == 0 && BN_cmp(secret, as_secret) == 0;

	X509_free(cert);
	X509_free(as_cert);
	BN_free(secret);
	BN_free(as_secret);
	return same;
}

/* Whatever a disk makes of it: never a crash, and never taken with another key or certificate. */
static void damage_is_noticed(void)
{
	static const char marks[] = { '\0', 'A', '-', '\n', '\x80' };
	char whole[SELFSIGN_PEM_MAX];
	unsigned refused = 0, taken = 0;
	struct err e;

	make("a.example.org");
	memcpy(whole, server, sizeof(whole));
	/* Each character becomes two of the marks; its neighbours become the others. */
	for (size_t i = 0; whole[i] != '\0'; i++)
		for (size_t k = i % COUNT(marks); k < COUNT(marks); k += 3) {
			server[i] = marks[k];
			if (!takes_server("a.example.org", NOW, &e)) {
				refused++;
			} else {
				taken += marks[k] != whole[i];
				CHECK_CASE(whole + i, is_the_same(server, whole));
			}
			server[i] = whole[i];
		}
	CHECK(takes_server("a.example.org", NOW, &e));
	CHECK(refused > 1000 && taken < 100);
	memset(server, 'A', sizeof(server));
	CHECK(!takes_server("a.example.org", NOW, &e));
}

TEST_MAIN({ "what is made is taken", what_is_made_is_taken },
	  { "the CA is valid for its names only", the_ca_is_valid_for_its_names_only },
	  { "another domain is noticed", another_domain_is_noticed },
	  { "another CA is noticed", another_ca_is_noticed }, { "time runs out", time_runs_out },
	  { "keys are not mixed", keys_are_not_mixed }, { "damage is noticed", damage_is_noticed })
