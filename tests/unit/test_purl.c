/* Goal: packages have the names in a bill of materials that other programs know them by. */
#include "lib/packages/purl.h"

#include "support.h"

static void names(void)
{
	static const struct {
		enum ecosystem eco;
		const char *name, *version, *want;
	} cases[] = {
		{ ECO_NPM, "left-pad", "1.3.0", "pkg:npm/left-pad@1.3.0" },
		{ ECO_NPM, "@a/b", "1.0.0-x+1", "pkg:npm/%40a/b@1.0.0-x%2B1" },
		{ ECO_PYPI, "Foo_Bar.x", "1!2", "pkg:pypi/foo-bar.x@1%212" },
		{ ECO_APT, "libc6", "1:2.0~a", "pkg:deb/debian/libc6@1:2.0~a" },
		{ ECO_CARGO, "Serde", "1", "pkg:cargo/Serde@1" },
		{ ECO_GO, "github.com/A/b", "v1", "pkg:golang/github.com/a/b@v1" },
		{ ECO_MAVEN, "org.x:y", "1", "pkg:maven/org.x/y@1" },
		{ ECO_GEM, "rails", "", "pkg:gem/rails" },
		{ ECO_GIT, "a/b c?#", "x", "pkg:generic/a/b%20c%3F%23@x" },
	};
	char got[PURL_MAX];

	for (size_t i = 0; i < COUNT(cases); i++) {
		purl_write(cases[i].eco, cases[i].name, cases[i].version, got);
		CHECK_STR(got, cases[i].want);
	}
}

static void longest(void)
{
	char name[PACKAGE_NAME_MAX], version[PACKAGE_VERSION_MAX], got[PURL_MAX];

	memset(name, '%', sizeof(name));
	memset(version, '%', sizeof(version));
	name[sizeof(name) - 1] = version[sizeof(version) - 1] = '\0';
	purl_write(ECO_APT, name, version, got);
	CHECK(strlen(got) < PURL_MAX && strstr(got, "@%25") != NULL &&
	      strcmp(got + strlen(got) - 3, "%25") == 0);
}

TEST_MAIN({ "names of every ecosystem", names }, { "the longest fits", longest })
