/* What the operator allows pulls, and how templates of images are called. */
#include "test.h"

#include <string.h>

#include "daemon/images/image_make.h"
#include "daemon/images/image_pull.h"

static void registries_are_allowed_by_name(void)
{
	CHECK(pull_policy_allows("*", "any.test") && pull_policy_allows("*", "10.0.0.1:5000"));
	CHECK(!pull_policy_allows("", "any.test") && !pull_policy_allows("a.test", "b.test"));
	CHECK(pull_policy_allows("x.test, a.test", "a.test:5000"));
	CHECK(pull_policy_allows("a.test:5000", "a.test:5000"));
	CHECK(!pull_policy_allows("a.test:5000", "a.test:5001"));
	CHECK(!pull_policy_allows("a.test:5000", "a.test"));
	CHECK(pull_policy_allows("*.b.test", "a.b.test:443"));
	CHECK(!pull_policy_allows("*.b.test", "b.test") &&
	      !pull_policy_allows("*.b.test", "ab.test"));
	CHECK(pull_policy_allows("[::1]", "[::1]:5000"));
}

static void private_addresses_are_for_exact_names(void)
{
	char hosts[PULL_HOSTS_MAX];

	pull_policy_open_hosts("*, *.a.test, b.test:5000 c.test", "", hosts);
	CHECK(strcmp(hosts, "b.test:5000,c.test") == 0);
	pull_policy_open_hosts("*", "http://127.0.0.1:5000/prefix", hosts);
	CHECK(strcmp(hosts, "127.0.0.1:5000") == 0);
}

static void mirrors_are_of_one_registry(void)
{
	char url[PULL_URL_MAX];

	pull_policy_mirror("a.test=https://m.test, b.test=http://127.0.0.1:1", "b.test", url);
	CHECK(strcmp(url, "http://127.0.0.1:1") == 0);
	pull_policy_mirror("a.test=https://m.test", "b.test", url);
	CHECK(url[0] == '\0');
	pull_policy_mirror("a.test", "a.test", url);
	CHECK(url[0] == '\0');
}

static bool is_called(const char *reference, const char *name, const char *want, const char *tag)
{
	struct image_pull p = { 0 };
	struct image_pull_spec spec = { .reference = reference, .name = name };
	struct err e;

	if (pull_spec_read(&p, &spec, &e) < 0)
		return want == NULL;
	return want != NULL && strcmp(p.name, want) == 0 &&
	       (tag == NULL ? p.make.ntags == 0 : p.make.ntags == 1 && strcmp(p.tags[0], tag) == 0);
}

static void templates_are_called_as_images(void)
{
	CHECK(is_called("python:3.12-slim", NULL, "python", "3.12-slim"));
	CHECK(is_called("reg.test:5000/a/b/tool", NULL, "tool", NULL));
	CHECK(is_called("a/b:v1", "mine", "mine", NULL));
	CHECK(is_called("a/b:v1", "mine:x", "mine", "x"));
	CHECK(is_called("a/b:v1", "other/mine", NULL, NULL)); /* of another tenant */
	CHECK(is_called("a//b", NULL, NULL, NULL) && is_called("", NULL, NULL, NULL));
}

static void errors_are_those_of_users(void)
{
	struct err e;

	(void)err_set(&e, ERR_NOT_FOUND, "x");
	pull_spec_explain("a:b", "MANIFEST_UNKNOWN", &e);
	CHECK(strcmp(e.msg,
		     "image 'a:b' not found: the image or tag does not exist in the registry") ==
	      0);
	(void)err_set(&e, ERR_NOT_FOUND, "no such host");
	pull_spec_explain("a:b", "", &e);
	CHECK(strcmp(e.msg, "failed to pull image 'a:b': no such host") == 0);
	(void)err_set(&e, ERR_DENIED, "x");
	pull_spec_explain("a:b", "DENIED", &e);
	CHECK(strstr(e.msg, "access denied to 'a:b'") == e.msg && e.code == ERR_DENIED);
	(void)err_set_reason(&e, REASON_STORAGE_FULL, "full");
	pull_spec_explain("a:b", "", &e);
	CHECK(e.reason == REASON_STORAGE_FULL);
}

/* The example of OCI's image specification, by its definition. */
static void a_chain_is_a_digest_of_digests(void)
{
	struct oci_digest a, b, chain, want;
	char text[2 * OCI_DIGEST_TEXT + 1];

	oci_digest_of("a", 1, &a);
	oci_digest_of("b", 1, &b);
	image_make_chain(NULL, &a, &chain);
	CHECK(oci_digest_same(&chain, &a));
	oci_digest_text(&a, text);
	text[OCI_DIGEST_TEXT - 1] = ' ';
	oci_digest_text(&b, text + OCI_DIGEST_TEXT);
	oci_digest_of(text, strlen(text), &want);
	image_make_chain(&a, &b, &chain);
	CHECK(oci_digest_same(&chain, &want));
}

TEST_MAIN({ "registries are allowed by name", registries_are_allowed_by_name },
	  { "private addresses are for exact names", private_addresses_are_for_exact_names },
	  { "mirrors are of one registry", mirrors_are_of_one_registry },
	  { "templates are called as images", templates_are_called_as_images },
	  { "errors are those of users", errors_are_those_of_users },
	  { "a chain is a digest of digests", a_chain_is_a_digest_of_digests })
