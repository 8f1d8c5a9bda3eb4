/* Goal: lists of names and versions match every spelling of what their author wrote, and
 * nothing else. */
#include "package_policy.h"

static void names_are_compared_in_normal_form(void)
{
	struct policy *p = make(NULL, NULL,
				"{\"deny\":[\"npm:left-pad@1.3.0\",\"pypi:Evil_Pkg\","
				"\"pypi:*-nightly\",\"npm:@bad/*\",\"cargo:a_b\",\"npm:c@1.*\"]}");

	CHECK(file_is(p, "npm:left-pad@1.3.0", "(packages.deny[0])"));
	CHECK(file_is(p, "npm:left-pad@1.3.1", NULL));
	CHECK(file_is(p, "npm:left-pad", "packages.deny[0]")); /* a version that is not told */
	CHECK(meta_is(p, "npm:left-pad", NULL));
	CHECK(file_is(p, "pypi:evil.pkg@1", "packages.deny[1]"));
	CHECK(meta_is(p, "pypi:EVIL--pkg", "packages.deny[1]"));
	CHECK(file_is(p, "pypi:torch_nightly@2", "packages.deny[2]"));
	CHECK(file_is(p, "npm:@bad/x@2", "packages.deny[3]"));
	CHECK(file_is(p, "npm:@ba/x@2", NULL));
	CHECK(file_is(p, "cargo:A-B@1", "packages.deny[4]"));
	CHECK(file_is(p, "npm:c@1.9", "packages.deny[5]"));
	CHECK(file_is(p, "npm:c@2.9", NULL));
	policy_free(p);
}

/* Whatever letters a name has: those that stand for a star while it is read are others. */
static void stars_are_where_they_were_written(void)
{
	struct policy *p = make(NULL, NULL,
				"{\"deny\":[\"npm:zqxa*\",\"npm:*zqxazqx\",\"pypi:ZQX_*-b\","
				"\"npm:zqstarqz-*\"]}");

	CHECK(file_is(p, "npm:zqxa1@1", "packages.deny[0]"));
	CHECK(file_is(p, "npm:zqx1@1", NULL));
	CHECK(file_is(p, "npm:1zqxazqx@1", "packages.deny[1]"));
	CHECK(file_is(p, "npm:1zqx@1", NULL));
	CHECK(file_is(p, "pypi:zqx-a.b@1", "packages.deny[2]"));
	CHECK(file_is(p, "npm:zqstarqz-1@1", "packages.deny[3]"));
	policy_free(p);
}

static void only_what_is_allowed(void)
{
	struct policy *p = make(NULL, NULL, "{\"allow\":[\"pypi:*\",\"npm:a@1.0\"]}");

	CHECK(file_is(p, "pypi:anything@1", NULL));
	CHECK(file_is(p, "npm:a@1.0", NULL));
	CHECK(file_is(p, "npm:a@1.1", "(packages.allow)"));
	CHECK(file_is(p, "npm:a", "(packages.allow)"));
	CHECK(meta_is(p, "npm:a", NULL));
	CHECK(meta_is(p, "npm:ab", "ab is not in the list of packages that this session allows"));
	policy_free(p);
}

static void own_names_are_nowhere_else(void)
{
	struct policy *p =
		make(NULL, NULL,
		     "{\"own\":[\"npm:@ours/*\"],\"registries\":[\"npm\",{\"ecosystem\":\"npm\","
		     "\"host\":\"npm.ours.example\",\"private\":true}]}");
	struct package_answer a = ask(p, NULL, "npm:@ours/x", PACKAGE_META, NULL);

	CHECK(has_words(&a, "@ours/x does not exist here") && a.is_absent);
	CHECK_STR(a.rule, "session packages.own");
	a = ask(p, "npm.ours.example", "npm:@ours/x", PACKAGE_META, NULL);
	CHECK(has_words(&a, NULL) && !a.is_absent);
	a = ask(p, "files.example", "npm:@ours/x@1", PACKAGE_FILE, NULL);
	CHECK(has_words(&a, "does not exist here"));
	policy_free(p);
}

TEST_MAIN({ "names_are_compared_in_normal_form", names_are_compared_in_normal_form },
	  { "stars_are_where_they_were_written", stars_are_where_they_were_written },
	  { "only_what_is_allowed", only_what_is_allowed },
	  { "own_names_are_nowhere_else", own_names_are_nowhere_else })
