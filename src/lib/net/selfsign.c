/* selfsign.c - theory of operation
 *
 * A certificate is its extensions, and these are a table in OpenSSL's configuration language. To
 * check one is to compare it with what would be made now: the same names, the right key and
 * signature, time left. So a new domain, a damaged file and a certificate that expires soon are the
 * same case for the caller: make a new one.
 *
 * Verifiers differ in their requirements. These extensions satisfy the strictest (OpenSSL's
 * x509_strict, which Python uses) and the others: key identifiers, a critical and complete key
 * usage, random serial numbers, names in the subjectAltName only. */
#include "lib/net/selfsign.h"

#include <openssl/err.h>
#include <stdbool.h>
#include <stdio.h>

#include "lib/net/keypair.h"

#define NAMES_MAX 1024

/* ---- extensions */

/* In OpenSSL's configuration language. */
static void selfsign_constraints_of(const char *domain, char ret[NAMES_MAX])
{
	(void)snprintf(ret, NAMES_MAX,
		       "critical,permitted;DNS:%s,permitted;DNS:localhost,"
		       "permitted;IP:127.0.0.1/255.255.255.255,"
		       "permitted;IP:::1/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		       domain);
}

static void selfsign_names_of(const char *domain, char ret[NAMES_MAX])
{
	(void)snprintf(ret, NAMES_MAX, "DNS:%s,DNS:*.%s,DNS:localhost,IP:127.0.0.1,IP:::1", domain,
		       domain);
}

/* Has the certificate this extension, byte for byte? */
static bool selfsign_has_extension(X509 *cert, const struct keypair_extension *x)
{
	int at = X509_get_ext_by_NID(cert, x->nid, -1);
	X509_EXTENSION *made = keypair_extension(x, cert, cert);
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

int selfsign_create_ca(const char *domain, int64_t now, char ret_pem[SELFSIGN_PEM_MAX],
		       struct err *e)
{
	char constraints[NAMES_MAX], name[64];
	const struct keypair_extension all[] = {
		{ NID_basic_constraints, "critical,CA:TRUE,pathlen:0" },
		{ NID_key_usage, "critical,keyCertSign,cRLSign" },
		{ NID_ext_key_usage, "serverAuth" },
		{ NID_subject_key_identifier, "hash" },
		{ NID_name_constraints, constraints },
	};
	OWN_PAIR p = { 0 };

	selfsign_constraints_of(domain, constraints);
	/* Names the node: a browser's list of CAs shows nothing else. */
	(void)snprintf(name, sizeof(name), "Cordon for %.50s", domain);
	if (keypair_make(name, now, SELFSIGN_CA_DAYS, &p, e) < 0)
		return -1;
	if (!keypair_sign(&p, &p, all, COUNT(all)))
		return keypair_failed(e, "create a CA");
	return keypair_write(p.key, p.cert, ret_pem, e);
}

int selfsign_ca_cert(const char *ca_pem, char ret_pem[SELFSIGN_PEM_MAX], struct err *e)
{
	OWN_PAIR p = { 0 };

	return keypair_read(ca_pem, &p, e) < 0 ? -1 : keypair_write(NULL, p.cert, ret_pem, e);
}

int selfsign_server(const char *ca_pem, const char *domain, int64_t now,
		    char ret_pem[SELFSIGN_PEM_MAX], struct err *e)
{
	char names[NAMES_MAX];
	const struct keypair_extension all[] = {
		{ NID_basic_constraints, "critical,CA:FALSE" },
		{ NID_key_usage, "critical,digitalSignature" },
		{ NID_ext_key_usage, "serverAuth" },
		{ NID_subject_key_identifier, "hash" },
		{ NID_authority_key_identifier, "keyid:always" },
		{ NID_subject_alt_name, names },
	};
	OWN_PAIR ca = { 0 };
	OWN_PAIR p = { 0 };

	selfsign_names_of(domain, names);
	if (keypair_read(ca_pem, &ca, e) < 0 ||
	    keypair_make("Cordon", now, SELFSIGN_SERVER_DAYS, &p, e) < 0)
		return -1;
	if (!keypair_sign(&p, &ca, all, COUNT(all)))
		return keypair_failed(e, "sign a certificate");
	return keypair_write(p.key, p.cert, ret_pem, e);
}

/* ---- checks */

static int selfsign_check_time(X509 *cert, int64_t now, int days, int64_t *ret_renew_at,
			       struct err *e)
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

/* A CA must outlive the certificates that it signs. */
int selfsign_check_ca(const char *ca_pem, const char *domain, int64_t now, struct err *e)
{
	char constraints[NAMES_MAX];
	int64_t renew_at;
	OWN_PAIR p = { 0 };

	selfsign_constraints_of(domain, constraints);
	if (keypair_read(ca_pem, &p, e) < 0)
		return -1;
	if (!selfsign_has_extension(
		    p.cert, &(struct keypair_extension){ NID_name_constraints, constraints }))
		return err_set(e, ERR_INVALID, "it is for another domain");
	if (X509_check_ca(p.cert) != 1 || X509_verify(p.cert, p.key) != 1) {
		ERR_clear_error();
		return err_set(e, ERR_INVALID, "it is not a CA certificate");
	}
	return selfsign_check_time(p.cert, now, SELFSIGN_SERVER_DAYS, &renew_at, e);
}

int selfsign_check_server(const char *ca_pem, const char *server_pem, const char *domain,
			  int64_t now, int64_t *ret_renew_at, struct err *e)
{
	char names[NAMES_MAX];
	OWN_PAIR ca = { 0 };
	OWN_PAIR p = { 0 };

	selfsign_names_of(domain, names);
	if (keypair_read(ca_pem, &ca, e) < 0 || keypair_read(server_pem, &p, e) < 0)
		return -1;
	if (!selfsign_has_extension(p.cert,
				    &(struct keypair_extension){ NID_subject_alt_name, names }))
		return err_set(e, ERR_INVALID, "it is for other names");
	if (X509_verify(p.cert, ca.key) != 1) {
		ERR_clear_error();
		return err_set(e, ERR_INVALID, "it is signed by another CA");
	}
	return selfsign_check_time(p.cert, now, SELFSIGN_RENEW_DAYS, ret_renew_at, e);
}
