#include "lib/base/log.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

#include "support.h"

static char said[3 * LOG_LINE_MAX];

/* Standard error becomes a file that says() reads and empties. */
static void listen_in(void)
{
	int fd = memfd_create("log", MFD_CLOEXEC);

	CHECK(fd >= 0 && dup2(fd, STDERR_FILENO) == STDERR_FILENO);
	(void)close(fd);
}

/* What was said since, without the time: "level=..." and so on. */
static const char *says(void)
{
	ssize_t n = pread(STDERR_FILENO, said, sizeof(said) - 1, 0);
	const char *level;

	CHECK(n >= 0 && ftruncate(STDERR_FILENO, 0) == 0);
	CHECK(lseek(STDERR_FILENO, 0, SEEK_SET) == 0);
	said[n] = '\0';
	if (n == 0)
		return "";
	level = strstr(said, said[0] == '{' ? "\"level\"" : "level=");
	CHECK(level != NULL);
	return level;
}

static void writes_logfmt(void)
{
	const char *volatile nothing = NULL;

	listen_in();
	log_info("session started", "session_id=%s ms=%u n=%d", "ses_1", 7U, -3);
	CHECK_STR(says(), "level=info msg=\"session started\" session_id=ses_1 ms=7 n=-3\n");
	log_warn("ready", "");
	CHECK_STR(says(), "level=warn msg=ready\n");
	CHECK(strncmp(said, "time=20", 7) == 0);
	log_error("sizes", "a=%zu b=%llu c=%lld d=%ld e=%lu", (size_t)1, ~0ULL, -2LL, -3L, 4UL);
	CHECK_STR(says(), "level=error msg=sizes a=1 b=18446744073709551615 c=-2 d=-3 e=4\n");
	log_info("null", "a=%s b=%s", nothing, "");
	CHECK_STR(says(), "level=info msg=null a=\"\" b=\"\"\n");
}

static void levels_decide(void)
{
	listen_in();
	log_debug("not by default", "");
	CHECK_STR(says(), "");
	CHECK(!log_wants(LOG_LEVEL_DEBUG) && log_wants(LOG_LEVEL_INFO));
	log_setup(LOG_FORMAT_LOGFMT, LOG_LEVEL_ERROR);
	log_warn("too quiet", "");
	CHECK_STR(says(), "");
	log_error("loud", "");
	CHECK_STR(says(), "level=error msg=loud\n");
	log_setup(LOG_FORMAT_LOGFMT, LOG_LEVEL_DEBUG);
	log_debug("heard", "");
	CHECK_STR(says(), "level=debug msg=heard\n");
	CHECK_STR(log_level_name(LOG_LEVEL_WARN), "warn");
	CHECK_STR(log_format_name(LOG_FORMAT_JSON), "json");
}

/* What a tenant might try, and what becomes of it in both formats. */
static const struct {
	const char *text, *logfmt, *json;
} hostile[] = {
	{ "plain-1.2:/x", "plain-1.2:/x", "\"plain-1.2:/x\"" },
	{ "x level=error", "\"x level=error\"", "\"x level=error\"" },
	{ "a=b", "\"a=b\"", "\"a=b\"" },
	{ "x\nlevel=error msg=forged", "\"x\\nlevel=error msg=forged\"",
	  "\"x\\nlevel=error msg=forged\"" },
	{ "\r", "\"\\u000d\"", "\"\\u000d\"" },
	{ "\" b=\"", "\"\\\" b=\\\"\"", "\"\\\" b=\\\"\"" },
	{ "\\", "\"\\\\\"", "\"\\\\\"" },
	{ "\x1b[2J", "\"\\u001b[2J\"", "\"\\u001b[2J\"" },
	{ "\x7f", "\"\\u007f\"", "\"\\u007f\"" },
	{ "\xc2\x9b"
	  "1m",
	  "\"\\u009b1m\"", "\"\\u009b1m\"" },
	{ "\xe2\x80\xa8", "\"\\u2028\"", "\"\\u2028\"" },
	{ "\xe2\x80\xae"
	  "txt",
	  "\"\\u202etxt\"", "\"\\u202etxt\"" },
	{ "\xff"
	  "a\xc3",
	  "\"\\ufffda\\ufffd\"", "\"\\ufffda\\ufffd\"" },
	{ "gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\"", "\"gr\xc3\xbc\xc3\x9f\"" },
	{ "\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\"", "\"\xf0\x9f\x98\x80\"" },
};

static void text_cannot_forge(void)
{
	char want[256];

	listen_in();
	for (size_t i = 0; i < COUNT(hostile); i++) {
		log_setup(LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
		log_info("m", "v=%s n=%d", hostile[i].text, 1);
		(void)snprintf(want, sizeof(want), "level=info msg=m v=%s n=1\n",
			       hostile[i].logfmt);
		CHECK_STR(says(), want);
		log_setup(LOG_FORMAT_JSON, LOG_LEVEL_INFO);
		log_info("m", "v=%s n=%d", hostile[i].text, 1);
		(void)snprintf(want, sizeof(want),
			       "\"level\":\"info\",\"msg\":\"m\",\"v\":%s,\"n\":1}\n",
			       hostile[i].json);
		CHECK_STR(says(), want);
		CHECK(strncmp(said, "{\"time\":\"20", 11) == 0);
	}
}

static void long_values_are_cut(void)
{
	char text[LOG_VALUE_MAX + 100];
	const char *got;

	listen_in();
	memset(text, 'a', sizeof(text));
	text[LOG_VALUE_MAX] = '\0';
	log_info("m", "v=%s", text);
	got = says();
	CHECK(strlen(got) == strlen("level=info msg=m v=\n") + LOG_VALUE_MAX);
	CHECK(strstr(got, "...") == NULL);
	text[LOG_VALUE_MAX] = 'a';
	text[LOG_VALUE_MAX + 1] = '\0';
	log_info("m", "v=%s n=%d", text, 5);
	got = says();
	CHECK_HAS("cut", got, "aaa...\" n=5\n");
	CHECK(strlen(got) == strlen("level=info msg=m v=\"...\" n=5\n") + LOG_VALUE_MAX);
	/* a character of three bytes over the edge goes as a whole */
	memcpy(text + LOG_VALUE_MAX - 1, "\xe2\x82\xac", 4);
	log_info("m", "v=%s", text);
	got = says();
	CHECK_HAS("cut between characters", got, "aaa...\"\n");
}

/* The longest there can be is still one line, whole, and within the bound. */
static void long_lines_leave_fields_out(void)
{
	char text[LOG_VALUE_MAX + 1];
	const char *got;

	memset(text, '\x01', sizeof(text)); /* six bytes each */
	text[LOG_VALUE_MAX] = '\0';
	listen_in();
	for (int format = 0; format < LOG_FORMATS; format++) {
		log_setup((enum log_format)format, LOG_LEVEL_INFO);
		log_info("m", "a=%s b=%s c=%d", text, text, 1);
		got = says();
		CHECK_HAS("cut", got,
			  format == LOG_FORMAT_JSON ? ",\"c\":1,\"cut\":2}\n" : "c=1 cut=2\n");
		CHECK(strlen(said) < LOG_LINE_MAX);
		CHECK(strchr(said, '\n') == said + strlen(said) - 1);
		text[LOG_VALUE_MAX / 3] = '\0';
		log_info("m", "a=%s b=%s c=%s d=%d", text, text, text, 1);
		got = says();
		CHECK_HAS("one fits", got, format == LOG_FORMAT_JSON ? "\"cut\":2}\n" : "cut=2\n");
		text[LOG_VALUE_MAX / 3] = '\x01';
	}
}

static void dies(const char *name, void (*run)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		(void)close(STDERR_FILENO);
		run();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_CASE(name, WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void bad_conversion(void)
{
	log_info("m", "v=%x", 1U);
}

static void no_key(void)
{
	log_info("m", "%d", 1);
}

static void bad_key(void)
{
	log_info("m", "Key=%d", 1);
}

static void literal(void)
{
	log_info("m", "a=%d,b=%d", 1, 2);
}

static void bad_templates_are_bugs(void)
{
	dies("conversion", bad_conversion);
	dies("no key", no_key);
	dies("upper case", bad_key);
	dies("comma", literal);
}

static void floods_are_counted(void)
{
	struct log_limit limit = { .burst = 3, .interval_ms = 50 };
	unsigned long long dropped = 99;
	int passed = 0;

	for (int i = 0; i < 10; i++)
		passed += log_limit(&limit, &dropped);
	CHECK(passed == 3 && dropped == 0);
	(void)usleep(60000);
	CHECK(log_limit(&limit, &dropped) && dropped == 7);
	CHECK(log_limit(&limit, &dropped) && dropped == 0);
}

static void errno_survives(void)
{
	(void)close(STDERR_FILENO);
	errno = EDOM;
	log_info("nobody hears it", "");
	CHECK(errno == EDOM);
}

TEST_MAIN({ "logfmt", writes_logfmt }, { "levels", levels_decide },
	  { "no text forges a line or a field", text_cannot_forge },
	  { "long values are cut", long_values_are_cut },
	  { "long lines leave fields out", long_lines_leave_fields_out },
	  { "a bad template is a bug", bad_templates_are_bugs },
	  { "floods are counted", floods_are_counted }, { "errno survives", errno_survives })
