#include "lib/config/config.h"

#include <stdint.h>
#include <sys/mman.h>

#include "lib/config/config_table.h"
#include "lib/config/config_value.h"
#include "support.h"

static const struct config_starter root = { .root = true };
static char *no_env[] = { NULL };

static int parse(struct config *c, const char *text, struct err *e)
{
	config_defaults(c, &root);
	return config_parse(c, "test.conf", text, strlen(text), e);
}

static void defaults_are_sane(void)
{
	static const struct config_starter user = { .home = "/home/a" };
	static const struct config_starter xdg = { .home = "/home/a",
						   .runtime_dir = "/run/user/1",
						   .state_home = "/s" };
	static const struct config_starter nobody = { 0 };
	struct config c;
	struct err e;

	config_defaults(&c, &root);
	CHECK(config_check(&c, &e) == 0);
	CHECK_STR(c.listen, "127.0.0.1:4983");
	CHECK_STR(c.state_dir, "/var/lib/cordon");
	CHECK_STR(c.run_dir, "/run/cordon-server");
	CHECK(c.memory_default == 0 && c.disk_default == 0 &&
	      c.session_timeout_default_ms == 300000);
	CHECK(c.cpus_default_milli == 1000 && c.output_limit_default == 16 << 20);
	CHECK(c.nmount_roots == 0 && !c.allow_remote_plain && c.executions_max == 64);
	config_defaults(&c, &user);
	CHECK_STR(c.state_dir, "/home/a/.local/state/cordon");
	CHECK_STR(c.run_dir, "/home/a/.local/state/cordon/run");
	config_defaults(&c, &xdg);
	CHECK_STR(c.state_dir, "/s/cordon");
	CHECK_STR(c.run_dir, "/run/user/1/cordon");
	config_defaults(&c, &nobody);
	CHECK_STR(c.state_dir, "");
}

static void reads_a_file(void)
{
	struct config c;
	struct err e;

	CHECK(parse(&c,
		    "# all of it a comment\n"
		    "\n"
		    "   \t\n"
		    "memory_max = 4G   # and behind\n"
		    "\tpool_size=3\n"
		    "cpus_default = 0.5\n"
		    "session_timeout_default =\t10m\t\n"
		    "mount_roots = /srv/a:rw,/srv/b\n"
		    "log_format = json\n"
		    "allow_remote_plain = yes\n"
		    "tls_cert = /etc/a#b\n"
		    "unix_socket =\n"
		    "listen = [::1]:80",
		    &e) == 0);
	CHECK(c.memory_max == 4ULL << 30 && c.pool_size == 3 && c.cpus_default_milli == 500);
	CHECK(c.session_timeout_default_ms == 600000 && c.log_format == 1 && c.allow_remote_plain);
	CHECK(c.nmount_roots == 2 && c.mount_roots[0].writable && !c.mount_roots[1].writable);
	CHECK_STR(c.mount_roots[0].path, "/srv/a");
	CHECK_STR(c.mount_roots[1].path, "/srv/b");
	CHECK_STR(c.tls_cert, "/etc/a#b");
	CHECK_STR(c.unix_socket, "");
	CHECK_STR(c.listen, "[::1]:80");
}

/* Every one says where, what and why. */
static const struct {
	const char *text, *message;
} bad[] = {
	{ "\nmemory_max = 12Q\n",
	  "test.conf:2: memory_max: '12Q' is not a size like 65536, 512M or 1.5G" },
	{ "memory_max = 1", "test.conf:1: memory_max: '1' is out of range (4M to 64T)" },
	{ "memory_max =", "test.conf:1: memory_max: '' is not a size like" },
	{ "memory-max = 1G", "test.conf:1: 'memory-max' is not a setting" },
	{ "MEMORY_MAX = 1G", "test.conf:1: 'MEMORY_MAX' is not a setting" },
	{ "= 3", "test.conf:1: '' is not a setting" },
	{ "state = /x", "test.conf:1: 'state' is not a setting" },
	{ "pool_size", "test.conf:1: 'pool_size' is not NAME = VALUE" },
	{ "pool_size = 1\n#\npool_size = 1", "test.conf:3: pool_size: is set twice" },
	{ "pool_size = -1", "test.conf:1: pool_size: '-1' is not a whole number" },
	{ "pool_size = 1 2", "test.conf:1: pool_size: '1 2' is not a whole number" },
	{ "log_level = loud", "log_level: 'loud' is not one of debug, info, warn, error" },
	{ "allow_remote_plain = maybe", "allow_remote_plain: 'maybe' is not yes or no" },
	{ "cpus_max = 0.0001", "cpus_max: '0.0001' is not a number like 2 or 0.5" },
	{ "retention = 1y", "retention: '1y' is not a time like" },
	{ "session_timeout_max = 31d", "session_timeout_max: '31d' is out of range" },
	{ "state_dir = x", "state_dir: 'x' is not an absolute path" },
	{ "state_dir = /a/../b", "state_dir: '/a/../b' is not an absolute path" },
	{ "state_dir = /a/", "state_dir: '/a/' is not an absolute path" },
	{ "state_dir = /a//b", "is not an absolute path" },
	{ "state_dir = /", "is not an absolute path" },
	{ "state_dir =", "state_dir: must not be empty" },
	{ "user = ", "user: must not be empty" },
	{ "user = a\x01", "user: has a control character" },
	{ "run_dir = /a23456789/123456789/123456789/123456789/123456789/123456789/123456789/123",
	  "is longer than 72 bytes" },
	{ "node_name = 0123456789abcdefghijklm", "node_name" },
	{ "domain = Example.com", "domain: 'Example.com' is not a DNS name in lower case" },
	{ "domain = .", "domain: '.' is not a DNS name" },
	{ "domain = a..b", "domain: 'a..b' is not a DNS name" },
	{ "domain = a.b.", "domain: 'a.b.' is not a DNS name" },
	{ "domain = -a.b", "domain: '-a.b' is not a DNS name" },
	{ "domain = a-.b", "domain: 'a-.b' is not a DNS name" },
	{ "domain = a_b", "domain: 'a_b' is not a DNS name" },
	{ "domain = *.a.b", "domain: '*.a.b' is not a DNS name" },
	{ "domain = a,DNS.b", "domain: 'a,DNS.b' is not a DNS name" },
	{ "domain = 127.0.0.1:80", "domain: '127.0.0.1:80' is not a DNS name" },
	{ "domain = a.b:", "domain: 'a.b:' is not a DNS name" },
	{ "domain = a.b:0", "domain: 'a.b:0' is not a DNS name" },
	{ "domain = a.b:080", "domain: 'a.b:080' is not a DNS name" },
	{ "domain = a.b:65536", "domain: 'a.b:65536' is not a DNS name" },
	{ "domain = :80", "domain: ':80' is not a DNS name" },
	{ "domain = https://a.b", "domain: 'https://a.b' is not a DNS name" },
	{ "domain = a.1234567890123456789012345678901234567890123456789012345678901234x",
	  "is not a DNS name" },
	{ "mount_roots = /a,", "mount_roots: '' is not an absolute PATH" },
	{ "mount_roots = ,/a", "mount_roots: '' is not an absolute PATH" },
	{ "mount_roots = /a:ro", "mount_roots: '/a:ro' is not an absolute PATH" },
	{ "mount_roots = /a, /b", "mount_roots: ' /b' is not an absolute PATH" },
	{ "mount_roots = :rw", "mount_roots: ':rw' is not an absolute PATH" },
	{ "mount_roots = /1,/2,/3,/4,/5,/6,/7,/8,/9", "mount_roots: has more than 8 paths" },
};

static void errors_name_the_place(void)
{
	char zero[] = "pool_size = 1\0 2\n";
	char endless[4096];
	struct config c;
	struct err e;

	for (size_t i = 0; i < COUNT(bad); i++) {
		CHECK_CASE(bad[i].text, parse(&c, bad[i].text, &e) < 0);
		CHECK_HAS(bad[i].text, e.msg, bad[i].message);
		CHECK_HAS(bad[i].text, e.msg, "test.conf:");
	}
	CHECK(config_parse(&c, "t", zero, sizeof(zero) - 1, &e) < 0);
	CHECK_STR(e.msg, "t:1: the line is too long or has a NUL");
	memset(endless, 'a', sizeof(endless));
	CHECK(config_parse(&c, "t", endless, sizeof(endless), &e) < 0);
	CHECK_STR(e.msg, "t:1: the line is too long or has a NUL");
}

static void settings_are_compared(void)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{ "memory_default = 9G",
		  "memory_default: 9G is more than memory_max, which is 8G" },
		{ "session_timeout_max = 1m", "session_timeout_default: 5m is more than" },
		{ "pool_size = 65", "pool_size: 65 is more than pool_max, which is 64" },
		{ "exec_timeout_default = 2m\nexec_timeout_max = 1m", "exec_timeout_default: 2m" },
		{ "memory_default = 512M\nnode_max_memory = 64M",
		  "memory_default: 512M is more than node_max_memory" },
		{ "memory_default = 1K", "memory_default: less than 4M, and not 0" },
		{ "disk_default = 1K", "disk_default: less than 64K, and not 0" },
		{ "node_name = fra-1", "node_name: 'fra-1' has other characters than a-z and 0-9" },
		{ "tls_cert = /a", "tls_key: must be set, too, because tls_cert is" },
		{ "tls_key = /a", "tls_cert: must be set, too, because tls_key is" },
		{ "tls_local = yes\ntls_cert = /a\ntls_key = /b",
		  "tls_local: tls_cert is set, too; use one of them" },
		{ "tls_local = yes\ndomain = localhost:80",
		  "clients accept no certificate for *.localhost: domain needs a dot, such as "
		  "cordon.localhost" },
		{ "listen =\nunix_socket =", "listen: listen and unix_socket are both empty" },
		{ "listen = example.com:80", "listen: " },
		{ "listen = unix:/x", "listen: 'unix:/x' is not an address such as 127.0.0.1:4983 "
				      "or [::1]:4983; a Unix socket is set by unix_socket" },
		{ "listen = 127.0.0.1", "listen: " },
		{ "listen = 127.0.0.1:65536", "listen: " },
		{ "listen = 0.0.0.0:80", "listen: 0.0.0.0:80 can be reached from other machines" },
		{ "listen = [::]:80", "can be reached from other machines without TLS" },
		{ "listen = 10.1.2.3:80", "set tls_cert and tls_key, or tls_local = yes, or" },
		{ "image_mirror = a.io=http://localhost.example.com", "image_mirror: 'a.io=http" },
		{ "image_mirror = a.io=http://127.example.com:80", "(http:// for loopback only)" },
		{ "image_mirror = a.io=http://127.0.0.1.example.com", "image_mirror: " },
		{ "image_mirror = a.io=http://10.0.0.1", "image_mirror: " },
		{ "image_mirror = a.io=http://", "image_mirror: " },
		{ "image_mirror = =https://b.io", "image_mirror: " },
	};
	static const char *const good[] = {
		"listen = 0.0.0.0:80\ntls_cert = /a\ntls_key = /b",
		"listen = 0.0.0.0:80\nallow_remote_plain = yes",
		"listen = 0.0.0.0:80\ntls_local = yes",
		"tls_local = yes\ndomain = a.b",
		"domain = localhost",
		"domain = localhost:4983",
		"domain = x1.a-b.1c:65535",
		"domain =",
		"node_name = 0fra1",
		"listen = 127.9.9.9:0",
		"listen = localhost:80",
		"listen = [::1]:80",
		"listen =",
		"unix_socket =",
		"exec_timeout_default = 2m",
		"image_mirror = a.io=https://b.io",
		"image_mirror = a.io=http://localhost, b.io=http://localhost:5000/x",
		"image_mirror = a.io=http://127.1.2.3:5000, b.io=http://[::1]:80",
	};
	struct config c;
	struct err e;

	for (size_t i = 0; i < COUNT(cases); i++) {
		CHECK_CASE(cases[i].text, parse(&c, cases[i].text, &e) == 0);
		CHECK_CASE(cases[i].text, config_check(&c, &e) < 0);
		CHECK_HAS(cases[i].text, e.msg, cases[i].message);
	}
	for (size_t i = 0; i < COUNT(good); i++) {
		CHECK_CASE(good[i], parse(&c, good[i], &e) == 0);
		CHECK_CASE(good[i], config_check(&c, &e) == 0);
	}
}

/* A configuration file of this text; its name is good until the test ends. */
static const char *file_of(const char *text)
{
	static char path[64];
	int fd = memfd_create("conf", 0);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return path;
}

static int load(struct config *c, const char *path, char *const *argv, char *const *env,
		struct err *e)
{
	int argc = 0;

	while (argv[argc] != NULL)
		argc++;
	return config_load(c, path, argc, argv, env, e);
}

#define WORDS(...) ((char *[]){ __VA_ARGS__, NULL })
#define W(text) ((char *)(uintptr_t)(text))

static void flag_over_environment_over_file(void)
{
	const char *path = file_of("state_dir = /s\nrun_dir = /r\npool_size = 1\npids_max = 1001\n"
				   "pids_default = 1\n");
	struct config c;
	struct err e;

	CHECK(load(&c, path, no_env, no_env, &e) < 0);
	CHECK_HAS("range", e.msg, "pids_default: '1' is out of range");
	CHECK_HAS("place", e.msg, "/proc/self/fd/");
	CHECK_HAS("line", e.msg, ":5: ");
	path = file_of("state_dir = /s\nrun_dir = /r\npool_size = 1\npids_max = 1001\n"
		       "nofile_default = 100\n");
	CHECK(load(&c, path, WORDS(W("--pool-size"), W("3")),
		   WORDS(W("HOME=/h"), W("CORDON_POOL_SIZE=2"), W("CORDON_PIDS_MAX=1002"),
			 W("CORDON_API_KEY=x"), W("cordon_pids_max=7"), W("CORDON_pids_max=8")),
		   &e) == 0);
	CHECK(c.pool_size == 3 && c.pids_max == 1002 && c.nofile_default == 100);
	CHECK(c.pids_default == 512);
	CHECK_STR(c.unix_socket, "/r/cordon.sock");
	CHECK(load(&c, NULL, no_env, WORDS(W("CORDON_CONFIG=/nowhere/x")), &e) < 0);
	CHECK_HAS("missing", e.msg, "/nowhere/x");
}

static void flags_have_many_forms(void)
{
	const char *path = file_of("state_dir = /s\nrun_dir = /r\n");
	struct config c;
	struct err e;

	CHECK(load(&c, path,
		   WORDS(W("--pool-size=3"), W("--pool_max"), W("70"), W("--state"), W("/x"),
			 W("--run=/y"), W("--allow-remote-plain"), W("--listen"), W("0.0.0.0:1"),
			 W("--pool-size=4"), W("--unix-socket=")),
		   no_env, &e) == 0);
	CHECK(c.pool_size == 4 && c.pool_max == 70 && c.allow_remote_plain);
	CHECK_STR(c.state_dir, "/x");
	CHECK_STR(c.run_dir, "/y");
	CHECK_STR(c.unix_socket, "");
	CHECK(load(&c, path, WORDS(W("--allow-remote-plain=no")), no_env, &e) == 0);
	CHECK(!c.allow_remote_plain);
	CHECK(load(&c, path, WORDS(W("--pool-size")), no_env, &e) < 0);
	CHECK_STR(e.msg, "--pool_size needs a value: COUNT");
	CHECK(load(&c, path, WORDS(W("--pool-size=x")), no_env, &e) < 0);
	CHECK_STR(e.msg, "--pool_size: 'x' is not a whole number");
	CHECK(load(&c, path, WORDS(W("--nonsense=x")), no_env, &e) < 0);
	CHECK_STR(e.msg, "'--nonsense=x' is not a setting");
	CHECK(load(&c, path, WORDS(W("word")), no_env, &e) < 0);
	CHECK(load(&c, path, no_env, WORDS(W("CORDON_POOL_SIZE=many")), &e) < 0);
	CHECK_STR(e.msg, "environment CORDON_POOL_SIZE: pool_size: 'many' is not a whole number");
	CHECK(config_flag_words("--pool-size", NULL) == 2 &&
	      config_flag_words("--pool-size=1", NULL) == 1);
	CHECK(config_flag_words("--allow-remote-plain", NULL) == 1 &&
	      config_flag_words("--state", NULL) == 2);
	CHECK(config_flag_words("--check", NULL) == 0 && config_flag_words("pool-size", NULL) == 0);
	CHECK(config_flag_words("--tls-local", "yes") == 2);
	CHECK(config_flag_words("--tls-local", "--state") == 1);
	CHECK(config_flag_words("--tls-local=no", "yes") == 1);
	CHECK(config_flag_words("--", NULL) == 0 && config_flag_words("", NULL) == 0);
}

static void strangers_in_the_environment(void)
{
	static const char *const known[] = { "CORDON_API_KEY", NULL };

	CHECK(config_unknown_env(no_env, NULL) == NULL);
	CHECK(config_unknown_env(WORDS(W("CORDON_POOL_SIZE=1"), W("CORDON_CONFIG=/x"), W("A=b")),
				 NULL) == NULL);
	CHECK_STR(config_unknown_env(WORDS(W("A=b"), W("CORDON_POOLSIZE=1")), known),
		  "CORDON_POOLSIZE=1");
	CHECK(config_unknown_env(WORDS(W("CORDON_API_KEY=1")), known) == NULL);
	CHECK(config_unknown_env(WORDS(W("CORDON_API_KEY=1")), NULL) != NULL);
}

/* Written and read again it is the same, whatever was set. */
static void there_and_back(void)
{
	const char *path = file_of("state_dir = /s\nrun_dir = /r\nmount_roots = /a:rw,/b/c\n"
				   "cpus_default = 0.125\nsession_timeout_default = 1.5s\n"
				   "retention = 1500ms\nfile_max = 1025\nlog_level = error\n"
				   "tls_cert = /c\ntls_key = /k\nallow_remote_plain = on\n"
				   "domain = a.example.org:8443\n");
	OWN_FD fd = memfd_create("conf", MFD_CLOEXEC);
	struct config c, again;
	char text[CONFIG_TEXT_MAX], small[100];
	struct err e;

	CHECK(fd >= 0 && load(&c, path, no_env, no_env, &e) == 0);
	CHECK(config_write(&c, fd, &e) == 0);
	memset(&again, 0xff, sizeof(again));
	CHECK(config_read_fd(&again, fd, &e) == 0);
	CHECK(config_print(&c, text, sizeof(text), &e) > 0);
	CHECK_HAS("millis", text, "\ncpus_default = 0.125\n");
	CHECK_HAS("time", text, "\nsession_timeout_default = 1500ms\n");
	CHECK_HAS("bytes", text, "\nfile_max = 1025\n");
	CHECK_HAS("roots", text, "\nmount_roots = /a:rw,/b/c\n");
	for (size_t i = 0; i < config_table_size; i++) {
		char one[CONFIG_VALUE_MAX], two[CONFIG_VALUE_MAX];

		config_value_format(&config_table[i], &c, one, sizeof(one));
		config_value_format(&config_table[i], &again, two, sizeof(two));
		CHECK_STR(two, one);
	}
	CHECK(again.mount_roots[0].writable && again.nmount_roots == 2);
	CHECK(again.cpus_default_milli == 125 && again.retention_ms == 1500);
	CHECK(config_print(&c, small, sizeof(small), &e) < 0 && e.code == ERR_LIMIT);
}

/* The longest values there are fit into what config_write() has room for. */
static void the_longest_fits(void)
{
	struct config c;
	char text[CONFIG_TEXT_MAX];
	struct err e;

	config_defaults(&c, &root);
	for (size_t i = 0; i < config_table_size; i++) {
		const struct config_setting *s = &config_table[i];
		char *field = (char *)&c + s->offset;

		if (s->kind == CONFIG_TEXT || s->kind == CONFIG_PATH) {
			memset(field, 'x', s->max);
			field[s->max] = '\0';
		} else if (s->kind >= CONFIG_COUNT && s->kind <= CONFIG_MILLIS) {
			memcpy(field, &s->max, sizeof(s->max));
		}
	}
	c.nmount_roots = CONFIG_ROOTS_MAX;
	for (size_t i = 0; i < CONFIG_ROOTS_MAX; i++) {
		memset(c.mount_roots[i].path, 'p', CONFIG_PATH_MAX - 1);
		c.mount_roots[i].path[CONFIG_PATH_MAX - 1] = '\0';
		c.mount_roots[i].writable = true;
	}
	CHECK(config_print(&c, text, sizeof(text), &e) > 0);
	CHECK_HAS("roots", text, "pppp:rw\n");
}

/* Of the table itself: every default is in range (else config_defaults() dies), names are unique.
 */
static void the_table_is_sound(void)
{
	CHECK(config_table[0].group != NULL);
	for (size_t i = 0; i < config_table_size; i++) {
		const struct config_setting *s = &config_table[i];

		CHECK_CASE(s->name, config_table_find(s->name, strlen(s->name)) == s);
		CHECK_CASE(s->name, config_table_find_flag(s->name, strlen(s->name)) == s);
		CHECK_CASE(s->name, s->help != NULL && s->argument != NULL && strlen(s->name) < 40);
		CHECK_CASE(s->name, s->value != NULL || s->shown != NULL);
		CHECK_CASE(s->name, s->shown == NULL || s->value == NULL || *s->value == '\0');
		for (size_t k = 0; k < i; k++)
			CHECK_CASE(s->name, s->offset != config_table[k].offset);
	}
}

TEST_MAIN({ "defaults", defaults_are_sane }, { "a file", reads_a_file },
	  { "errors name the place", errors_name_the_place },
	  { "settings are compared", settings_are_compared },
	  { "flag over environment over file", flag_over_environment_over_file },
	  { "forms of flags", flags_have_many_forms },
	  { "strangers in the environment", strangers_in_the_environment },
	  { "there and back", there_and_back }, { "the longest fits", the_longest_fits },
	  { "the table is sound", the_table_is_sound })
