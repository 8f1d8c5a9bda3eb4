/* test_gvisor_bundle.c - what runsc is told about a guest. */
#include "cell/engines/gvisor/gvisor_bundle.h"

#include <string.h>

#include "lib/wire/cell_spec.h"
#include "json_check.h"
#include "support.h"

static const struct boot_request request = {
	.engine = BOOT_GVISOR,
	.fds = BOOT_FD_ENGINE,
	.uid = 1000,
	.gid = 1001,
	.disk_bytes = 64 << 20,
	.nofile = 1024,
	.hostname = "box",
};

static const char *text_of(const struct boot_request *r)
{
	static char text[GVISOR_BUNDLE_MAX];
	size_t n = gvisor_bundle_write(r, text, sizeof(text));

	CHECK(n > 0 && n == strlen(text));
	CHECK(json_check_valid(text, n));
	return text;
}

static void root_of_a_standard_guest(void)
{
	const char *text = text_of(&request);

	CHECK_HAS("root", text, "\"root\":{\"path\":\"/dev/shm/root\"}");
	CHECK_HAS("args", text, "\"args\":[\"cordon-init\",\"guest\"]");
	CHECK_HAS("user", text, "\"user\":{\"uid\":0,\"gid\":0}");
	CHECK_HAS("caps", text, "\"CAP_CHOWN\"");
	CHECK_HAS("hostname", text, "\"hostname\":\"box\"");
	CHECK_HAS("nofile", text, "{\"type\":\"RLIMIT_NOFILE\",\"soft\":1024,\"hard\":1024}");
	CHECK_HAS("shm", text, "\"size=67108864\"");
	CHECK(strstr(text, "CAP_SYS_ADMIN") == NULL && strstr(text, "\"network\"") == NULL);
}

static void locked_names_the_user(void)
{
	struct boot_request r = request;
	const char *text;

	r.profile = CELL_LOCKED;
	text = text_of(&r);
	CHECK_HAS("args", text, "\"args\":[\"cordon-init\",\"guest\",\"1000\",\"1001\"]");
}

static void what_does_not_fit_is_nothing(void)
{
	char text[256];

	CHECK(gvisor_bundle_write(&request, text, sizeof(text)) == 0);
}

TEST_MAIN({ "root of a standard guest", root_of_a_standard_guest },
	  { "locked names the user", locked_names_the_user },
	  { "what does not fit is nothing", what_does_not_fit_is_nothing })
