/* selfsign.c - theory of operation
 *
 * A certificate is its extensions, and these are a table of OpenSSL's configuration language. To
 * judge one is to compare it with what would be made now: the same names, the right key, the right
 * signature, time left. So a new domain, a damaged file and one that is about to expire are the
 * same case to the caller: make it anew.
 *
 * Verifiers differ in what they insist on; this is what the strictest (OpenSSL's x509_strict, which
 * Python uses) and the others take: key identifiers, a critical and complete key usage, random
 * serial numbers, names in the subjectAltName only. */
#include "selfsign.h"

#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define EARLIER (24 * 3600) /* clocks of clients may be behind ours */
#define NAMES_MAX 1024
#define SERIAL_BITS 127

struct pair {
	EVP_PKEY *key;
	X509 *cert;
};

struct extension {
	int nid;
	const char *value;
};

static void pair_free(struct pair *p)
{
	EVP_PKEY_free(p->key);
	X509_free(p->cert);
}

#define OWN_PAIR __attribute__((cleanup(pair_free))) struct pair

/* Moves OpenSSL's latest error into e; its queue is empty afterwards. */
static int failed(struct err *e, const char *what)
{
	unsigned long code = ERR_peek_last_error();
	const char *why = code ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error();
	return err_set(e, ERR_SYSTEM, "%s: %s", what, why ? why : "no memory");
}

/* ---- texts */

static int no_password(char *buf, int size, int rwflag, void *arg)
{
	(void)buf;
	(void)size;
	(void)rwflag;
	(void)arg;
	return -1;
}

/* The two halves of a key belong together; to compare it with a certificate looks at one only. */
static bool is_whole(EVP_PKEY *key)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key, NULL);
	bool whole = ctx != NULL && EVP_PKEY_pairwise_check(ctx) == 1;

	EVP_PKEY_CTX_free(ctx);
	return whole;
}

/* A key and a certificate that belong together. */
static int read_pair(const char *pem, struct pair *ret, struct err *e)
{
	BIO *in = BIO_new_mem_buf(pem, (int)strnlen(pem, SELFSIGN_PEM_MAX));
	int result = -1;

	if (in != NULL)
		ret->key = PEM_read_bio_PrivateKey(in, NULL, no_password, NULL);
	if (ret->key != NULL)
		ret->cert = PEM_read_bio_X509(in, NULL, no_password, NULL);
	if (ret->cert == NULL || X509_check_private_key(ret->cert, ret->key) != 1 ||
	    !is_whole(ret->key))
		(void)err_set(e, ERR_INVALID, "it is no key with its certificate");
	else
		result = 0;
	ERR_clear_error();
	BIO_free(in);
	return result;
}

static int write_pair(EVP_PKEY *key, X509 *cert, char *ret_pem, struct err *e)
{
	BIO *out = BIO_new(BIO_s_secmem());
	int n = -1;

	if (out != NULL &&
	    (key == NULL || PEM_write_bio_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) == 1) &&
	    PEM_write_bio_X509(out, cert) == 1)
		n = BIO_read(out, ret_pem, SELFSIGN_PEM_MAX);
	BIO_free(out);
	if (n <= 0)
		return failed(e, "write a certificate");
	if (n == SELFSIGN_PEM_MAX)
		return err_set(e, ERR_LIMIT, "a certificate of more than %d bytes", n - 1);
	ret_pem[n] = '\0';
	return 0;
}

/* ---- extensions */

/* As OpenSSL's configuration says it. */
static void constraints_of(const char *domain, char ret[NAMES_MAX])
{
	(void)snprintf(ret, NAMES_MAX,
		       "critical,permitted;DNS:%s,permitted;DNS:localhost,"
		       "permitted;IP:127.0.0.1/255.255.255.255,"
		       "permitted;IP:::1/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		       domain);
}

static void names_of(const char *domain, char ret[NAMES_MAX])
{
	(void)snprintf(ret, NAMES_MAX, "DNS:%s,DNS:*.%s,DNS:localhost,IP:127.0.0.1,IP:::1", domain,
		       domain);
}

static X509_EXTENSION *make_extension(const struct extension *x, X509 *issuer, X509 *subject)
{
	X509V3_CTX context;

	X509V3_set_ctx_nodb(&context);
	X509V3_set_ctx(&context, issuer, subject, NULL, NULL, 0);
	return X509V3_EXT_conf_nid(NULL, &context, x->nid, x->value);
}

static bool add_extensions(X509 *cert, X509 *issuer, const struct extension *all, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		X509_EXTENSION *made = make_extension(&all[i], issuer, cert);
		bool added = made != NULL && X509_add_ext(cert, made, -1) == 1;

		X509_EXTENSION_free(made);
		if (!added)
			return false;
	}
	return true;
}

/* Whether the certificate has this one, byte for byte. */
static bool has_extension(X509 *cert, const struct extension *x)
{
	int at = X509_get_ext_by_NID(cert, x->nid, -1);
	X509_EXTENSION *made = make_extension(x, cert, cert);
	X509_EXTENSION *is = at < 0 ? NULL : X509_get_ext(cert, at);
	bool same = made != NULL && is != NULL &&
		    X509_EXTENSION_get_critical(made) == X509_EXTENSION_get_critical(is) &&
		    ASN1_OCTET_STRING_cmp(X509_EXTENSION_get_data(made),
					  X509_EXTENSION_get_data(is)) == 0;

	X509_EXTENSION_free(made);
	ERR_clear_error();
	return same;
}

/* ---- certificates */

static bool set_serial(X509 *cert)
{
	BIGNUM *number = BN_new();
	bool set = number != NULL &&
		   BN_rand(number, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
		   BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL;

	BN_free(number);
	return set;
}

static bool set_times(X509 *cert, int64_t now, int days)
{
	time_t at = (time_t)now;

	return X509_time_adj_ex(X509_getm_notBefore(cert), 0, -EARLIER, &at) != NULL &&
	       X509_time_adj_ex(X509_getm_notAfter(cert), days, 0, &at) != NULL;
}

static bool set_name(X509_NAME *name, const char *text)
{
	return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)text,
					  -1, -1, 0) == 1;
}

/* Everything but extensions and signature. The name says which node's it is: a browser's list of
 * authorities shows nothing else. */
static int make_pair(const char *name, int64_t now, int days, struct pair *ret, struct err *e)
{
	ret->key = EVP_EC_gen("P-256");
	ret->cert = X509_new();
	if (ret->key == NULL || ret->cert == NULL ||
	    X509_set_version(ret->cert, X509_VERSION_3) != 1 || !set_serial(ret->cert) ||
	    !set_times(ret->cert, now, days) || X509_set_pubkey(ret->cert, ret->key) != 1 ||
	    !set_name(X509_get_subject_name(ret->cert), name))
		return failed(e, "make a certificate");
	return 0;
}

int selfsign_authority(const char *domain, int64_t now, char ret_pem[SELFSIGN_PEM_MAX],
		       struct err *e)
{
	char constraints[NAMES_MAX], name[64];
	const struct extension all[] = {
		{ NID_basic_constraints, "critical,CA:TRUE,pathlen:0" },
		{ NID_key_usage, "critical,keyCertSign,cRLSign" },
		{ NID_ext_key_usage, "serverAuth" },
		{ NID_subject_key_identifier, "hash" },
		{ NID_name_constraints, constraints },
	};
	OWN_PAIR p = { 0 };

	constraints_of(domain, constraints);
	(void)snprintf(name, sizeof(name), "Cordon for %.50s", domain);
	if (make_pair(name, now, SELFSIGN_AUTHORITY_DAYS, &p, e) < 0)
		return -1;
	if (X509_set_issuer_name(p.cert, X509_get_subject_name(p.cert)) != 1 ||
	    !add_extensions(p.cert, p.cert, all, COUNT(all)) ||
	    X509_sign(p.cert, p.key, EVP_sha256()) == 0)
		return failed(e, "make an authority");
	return write_pair(p.key, p.cert, ret_pem, e);
}

int selfsign_public(const char *authority_pem, char ret_pem[SELFSIGN_PEM_MAX], struct err *e)
{
	OWN_PAIR p = { 0 };

	return read_pair(authority_pem, &p, e) < 0 ? -1 : write_pair(NULL, p.cert, ret_pem, e);
}

int selfsign_server(const char *authority_pem, const char *domain, int64_t now,
		    char ret_pem[SELFSIGN_PEM_MAX], struct err *e)
{
	char names[NAMES_MAX];
	const struct extension all[] = {
		{ NID_basic_constraints, "critical,CA:FALSE" },
		{ NID_key_usage, "critical,digitalSignature" },
		{ NID_ext_key_usage, "serverAuth" },
		{ NID_subject_key_identifier, "hash" },
		{ NID_authority_key_identifier, "keyid:always" },
		{ NID_subject_alt_name, names },
	};
	OWN_PAIR authority = { 0 };
	OWN_PAIR p = { 0 };

	names_of(domain, names);
	if (read_pair(authority_pem, &authority, e) < 0 ||
	    make_pair("Cordon", now, SELFSIGN_SERVER_DAYS, &p, e) < 0)
		return -1;
	if (X509_set_issuer_name(p.cert, X509_get_subject_name(authority.cert)) != 1 ||
	    !add_extensions(p.cert, authority.cert, all, COUNT(all)) ||
	    X509_sign(p.cert, authority.key, EVP_sha256()) == 0)
		return failed(e, "sign a certificate");
	return write_pair(p.key, p.cert, ret_pem, e);
}

/* ---- judging */

static int check_time(X509 *cert, int64_t now, int days, int64_t *ret_renew_at, struct err *e)
{
	time_t at = (time_t)now, end;
	struct tm tm;

	if (X509_cmp_time(X509_get0_notBefore(cert), &at) != -1)
		return err_set(e, ERR_INVALID, "it is not valid yet");
	if (ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) != 1 || (end = timegm(&tm)) < 0)
		return err_set(e, ERR_INVALID, "its end cannot be read");
	*ret_renew_at = (int64_t)end - days * SELFSIGN_DAY;
	if (now >= *ret_renew_at)
		return err_set(e, ERR_INVALID, "it has less than %d days left", days);
	return 0;
}

/* An authority must outlive what it signs. */
int selfsign_check_authority(const char *authority_pem, const char *domain, int64_t now,
			     struct err *e)
{
	char constraints[NAMES_MAX];
	int64_t renew_at;
	OWN_PAIR p = { 0 };

	constraints_of(domain, constraints);
	if (read_pair(authority_pem, &p, e) < 0)
		return -1;
	if (!has_extension(p.cert, &(struct extension){ NID_name_constraints, constraints }))
		return err_set(e, ERR_INVALID, "it is for another domain");
	if (X509_check_ca(p.cert) != 1 || X509_verify(p.cert, p.key) != 1) {
		ERR_clear_error();
		return err_set(e, ERR_INVALID, "it is no authority");
	}
	return check_time(p.cert, now, SELFSIGN_SERVER_DAYS, &renew_at, e);
}

int selfsign_check_server(const char *authority_pem, const char *server_pem, const char *domain,
			  int64_t now, int64_t *ret_renew_at, struct err *e)
{
	char names[NAMES_MAX];
	OWN_PAIR authority = { 0 };
	OWN_PAIR p = { 0 };

	names_of(domain, names);
	if (read_pair(authority_pem, &authority, e) < 0 || read_pair(server_pem, &p, e) < 0)
		return -1;
	if (!has_extension(p.cert, &(struct extension){ NID_subject_alt_name, names }))
		return err_set(e, ERR_INVALID, "it is for other names");
	if (X509_verify(p.cert, authority.key) != 1) {
		ERR_clear_error();
		return err_set(e, ERR_INVALID, "another authority signed it");
	}
	return check_time(p.cert, now, SELFSIGN_RENEW_DAYS, ret_renew_at, e);
}
