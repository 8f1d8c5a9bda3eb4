/* level.c - `cordon level`, `cordon guest` and `cordon profile`: see level.h. Packages are
 * installed by apt-get. The kernel of guests comes as with `cordon guest install`. Existing
 * parts are left alone. No server is asked: the answers are about this machine and a state
 * directory. A running server reads the installed parts at its next start. */
#include "cmd/doctor/level.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/cellctl/installed.h"
#include "cell/cellctl/runsc.h"
#include "cell/kernel/guest_files.h"
#include "cell/kernel/guest_install.h"
#include "cell/kernel/guest_package.h"
#include "cell/kernel/guest_tool.h"
#include "cmd/base/level_machine.h"
#include "lib/base/io.h"
#include "lib/config/config.h"
#include "lib/json/json.h"
#include "lib/wire/cell_spec.h"
#include "lib/wire/exit_codes.h"
#include "seccomp_program.h"

/* ---- `cordon guest`. The installation itself is in src/cell/kernel. */

/* The options of `cordon guest`. Their words are borrowed from argv. */
struct guest_options {
	const char *state_dir, *deb, *initramfs;
	bool json;
};

#define GUEST_FIELD(name) offsetof(struct guest_options, name)

static const struct option guest_verb_options[] = {
	{ "state-dir", "DIR", OPTION_TEXT, GUEST_FIELD(state_dir), 0, 0,
	  "state directory of the server (default: as for cordon serve)" },
	{ "deb", "FILE", OPTION_TEXT, GUEST_FIELD(deb), 0, 0,
	  "install: this kernel package of Debian; nothing is downloaded" },
	{ "initramfs", "FILE", OPTION_TEXT, GUEST_FIELD(initramfs), 0, 0,
	  "writes the initramfs of guests to a file, to boot one by hand" },
	{ "json", NULL, OPTION_FLAG, GUEST_FIELD(json), 0, 0, "shows it as one JSON object" },
};

/* --deb avoids the download. The text says where the kernel is, because a server with another
 * state directory does not find it. */
static int guest_verb_install(const struct guest_options *o, struct err *e)
{
	struct guest_manifest m;

	if (guest_install(o->state_dir, o->deb, &m, e) < 0)
		return -1;
	(void)printf("installed the guest kernel %s in %s/" GUEST_FOLDER "\n", m.release,
		     o->state_dir);
	return 0;
}

#define JSON_MAX 65536

/* All of it, or a failure. */
static int print_json(struct json *j, struct err *e)
{
	bool ok = json_ok(j);

	if (ok)
		(void)puts(j->text);
	json_release(j);
	return ok ? 0 : err_set(e, ERR_LIMIT, "the answer is too large");
}

/* newest: "", if apt knows none. */
static int guest_show_json(const struct guest_manifest *m, const char *newest, bool is_newer,
			   struct err *e)
{
	struct json j;

	json_init_heap(&j, JSON_MAX);
	json_open(&j, NULL, '{');
	json_text(&j, "kernel", m->release);
	json_text(&j, "package", m->package);
	json_text(&j, "vmlinux_sha256", m->vmlinux);
	json_text(&j, "modules_sha256", m->modules);
	json_text(&j, "newest", *newest == '\0' ? NULL : newest);
	json_bool(&j, "newest_is_newer", is_newer);
	json_close(&j, '}');
	return print_json(&j, e);
}

/* And what apt has now, if there is an apt that knows. */
static int guest_show(int dir, bool as_json, struct err *e)
{
	char newest[GUEST_PACKAGE_MAX] = "";
	struct guest_manifest m;
	bool is_newer = false;
	struct err unknown = { 0 };

	if (guest_manifest_read(dir, &m, e) < 0)
		return -1;
	if (guest_package_newest(m.package, newest, &is_newer, &unknown) < 0)
		newest[0] = '\0';
	if (as_json)
		return guest_show_json(&m, newest, is_newer, e);
	(void)printf("kernel   %s\npackage  %s\nvmlinux  sha256:%s\nmodules  sha256:%s\n",
		     m.release, m.package, m.vmlinux, m.modules);
	if (newest[0] == '\0')
		(void)printf("newest   not known: %s\n", unknown.msg);
	else
		(void)printf("newest   %s%s\n", newest,
			     is_newer ? ", newer: `cordon guest install` gets it" : "");
	return 0;
}

/* A short copy is an error: half an initramfs does not boot. sendfile() may stop before the end,
 * so the loop counts. */
static int copy_out(int from, const char *path, struct err *e)
{
	OWN_FD to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	struct stat st;
	off_t at = 0;

	if (to < 0 || fstat(from, &st) < 0)
		return err_sys(e, "open %s", path);
	while (at < st.st_size)
		if (sendfile(to, from, &at, (size_t)(st.st_size - at)) <= 0)
			return err_sys(e, "write %s", path);
	return 0;
}

/* The initramfs holds this installation's cordon-init. Real guests boot the same bytes, so a
 * person can look for faults with them. */
static int write_initramfs(int dir, const char *path, struct err *e)
{
	struct guest_files f;
	char program[256];
	int result;

	if (installed_path("cordon-init", program, sizeof(program), e) < 0)
		return -1;
	OWN_FD init = open(program, O_RDONLY | O_CLOEXEC);
	if (init < 0)
		return err_sys(e, "open %s", program);
	if (guest_files_load(dir, init, &f, e) < 0)
		return -1;
	result = copy_out(f.initramfs, path, e);
	guest_files_release(&f);
	return result;
}

/* `cordon guest` without install: shows the manifest, or writes the initramfs. */
static int level_look(const struct guest_options *o, struct err *e)
{
	int dir = -1;

	if (guest_files_open_dir(o->state_dir, &dir, e) < 0)
		return -1;
	OWN_FD held = dir;
	return o->initramfs != NULL ? write_initramfs(held, o->initramfs, e)
				    : guest_show(held, o->json, e);
}

/* For `cordon guest`, `cordon level` and `cordon profile`: print the error and return the exit
 * code. Wrong use has a code of its own, so that scripts can tell a misspelt option from a level
 * that this machine cannot have. */
static int level_fail(const struct verb *v, const struct err *e, bool is_usage)
{
	(void)fprintf(stderr, "cordon %s: %s\n", v->name, e->msg);
	return is_usage ? EXIT_USAGE : EXIT_CORDON;
}

/* "install" may stand before or behind the options. */
static int read_words(int argc, char **argv, struct guest_options *o, bool *ret_install,
		      struct err *e)
{
	bool first = argc > 0 && strcmp(argv[0], "install") == 0;
	int n = options_parse(&guest_verb, argc - first, argv + first, o, NULL, e);

	if (n < 0)
		return -1;
	argc -= n + first;
	argv += n + first;
	*ret_install = first || (argc == 1 && strcmp(argv[0], "install") == 0);
	if (argc > (*ret_install && !first ? 1 : 0))
		return err_set(e, ERR_INVALID, "'%.40s' is not understood", argv[0]);
	if (o->deb != NULL && !*ret_install)
		return err_set(e, ERR_INVALID, "--deb is for install");
	if (o->json && (*ret_install || o->initramfs != NULL))
		return err_set(e, ERR_INVALID, "--json: not with install or --initramfs");
	return 0;
}

/* The options are the same before and behind "install". --help is looked for first, so that it
 * works beside anything else. */
static int guest_main(int argc, char **argv)
{
	static struct config config;
	struct config_starter starter;
	struct guest_options o = { .deb = NULL };
	bool wants_install;
	struct err e;

	for (int i = 0; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			options_help(&guest_verb, stdout);
			return 0;
		}
	config_starter_find(&starter, environ);
	config_defaults(&config, &starter);
	o.state_dir = config.state_dir;
	if (read_words(argc, argv, &o, &wants_install, &e) < 0)
		return level_fail(&guest_verb, &e, true);
	if ((wants_install ? guest_verb_install : level_look)(&o, &e) < 0)
		return level_fail(&guest_verb, &e, false);
	return 0;
}

const struct verb guest_verb = {
	.name = "guest",
	.usage = "[install] [OPTION ...]",
	.summary = "Shows the kernel of guests at level microvm; install gets it.",
	.text = "install downloads Debian's kernel for virtual machines with apt-get, or takes a "
		"package given\n"
		"with --deb, and puts the kernel and the modules that guests need into the folder "
		"guest of the\n"
		"state directory. The package is not installed on this machine. Needs dpkg-deb, "
		"lz4 or zstd, and\n"
		"xz for modules of Debian 13. A running server uses the new kernel after its next "
		"start.\n"
		"\n"
		"Without install it shows what is installed, and the newest package that apt knows "
		"by its lists.\n",
	.examples = "cordon guest install\n"
		    "cordon guest install --deb linux-image-cloud-amd64.deb\n",
	.options = guest_verb_options,
	.noptions = COUNT(guest_verb_options),
	.run = guest_main,
};

/* ---- `cordon profile` prints the table seccomp_names. tools/gen-seccomp writes it from
 * syscalls.def, together with the filter itself, so the printed answers and the filter agree. */
struct profile_options {
	bool json, help;
};

static const struct option profile_options[] = {
	{ "json", NULL, OPTION_FLAG, offsetof(struct profile_options, json), 0, 0,
	  "prints one JSON object: calls, and other, the answer to every other call" },
	{ "help", NULL, OPTION_FLAG, offsetof(struct profile_options, help), 0, 0,
	  "shows this help" },
};

/* The answer to a call outside the table is always enosys. */
static int profile_json(bool locked)
{
	struct json j;
	struct err e;

	json_init_heap(&j, JSON_MAX);
	json_open(&j, NULL, '{');
	json_text(&j, "profile", cell_profile_name(locked ? CELL_LOCKED : CELL_STANDARD));
	json_open(&j, "calls", '{');
	for (size_t i = 0; i < COUNT(seccomp_names); i++)
		json_text(&j, seccomp_names[i].name,
			  locked ? seccomp_names[i].locked : seccomp_names[i].standard);
	json_close(&j, '}');
	json_text(&j, "other", "enosys");
	json_close(&j, '}');
	return print_json(&j, &e) < 0 ? level_fail(&profile_verb, &e, false) : 0;
}

/* The name may stand before or behind the options. */
static int profile_main(int argc, char **argv)
{
	struct profile_options o = { .json = false };
	const char *name = argc > 0 && argv[0][0] != '-' ? argv[0] : NULL;
	int first = name != NULL, n;
	bool locked;
	struct err e;

	n = options_parse(&profile_verb, argc - first, argv + first, &o, NULL, &e);
	if (n < 0)
		return level_fail(&profile_verb, &e, true);
	if (o.help) {
		options_help(&profile_verb, stdout);
		return 0;
	}
	if (name == NULL && first + n < argc)
		name = argv[n++];
	locked = name != NULL && strcmp(name, cell_profile_name(CELL_LOCKED)) == 0;
	if (first + n < argc ||
	    (name != NULL && !locked && strcmp(name, cell_profile_name(CELL_STANDARD)) != 0)) {
		(void)err_set(&e, ERR_INVALID, "'%.40s' is neither standard nor locked",
			      first + n < argc ? argv[first + n] : name);
		return level_fail(&profile_verb, &e, true);
	}
	if (o.json)
		return profile_json(locked);
	for (size_t i = 0; i < COUNT(seccomp_names); i++)
		(void)printf("%-28s %s\n", seccomp_names[i].name,
			     locked ? seccomp_names[i].locked : seccomp_names[i].standard);
	(void)printf("%-28s %s\n", "(every other call)", "enosys");
	return 0;
}

const struct verb profile_verb = {
	.name = "profile",
	.usage = "[standard|locked] [OPTION ...]",
	.summary = "Prints every system call and the answer a cell gets to it.",
	.text = "An answer is allow, an error, or the name of a rule over the call's arguments.\n",
	.examples = "cordon profile locked | grep -v allow\n",
	.options = profile_options,
	.noptions = COUNT(profile_options),
	.run = profile_main,
};

/* ---- `cordon level`. Each level has a function for `install`, which changes nothing if its
 * parts exist, and one line of output without it. apt-get gets packages, and only root may run
 * it. */
#define WORDS_MAX 24

struct level_options {
	const char *state_dir, *deb;
	bool json;
};

#define FIELD(name) offsetof(struct level_options, name)

static const struct option options[] = {
	{ "state-dir", "DIR", OPTION_TEXT, FIELD(state_dir), 0, 0,
	  "state directory of the server (default: as for cordon serve)" },
	{ "deb", "FILE", OPTION_TEXT, FIELD(deb), 0, 0,
	  "install microvm: this kernel package of Debian; it is not downloaded" },
	{ "json", NULL, OPTION_FLAG, FIELD(json), 0, 0,
	  "shows the levels as one JSON object: name, possible, note" },
};

/* ---- packages */

/* release: "": the usual one. packages end with NULL. */
static int apt_install(const char *release, const char *const *packages, struct err *e)
{
	const char *argv[WORDS_MAX] = { "apt-get", "-y", "-qq", "--no-install-recommends" };
	const struct guest_tool t = { .argv = argv, .dir = -1, .in = -1, .out = -1 };
	size_t n = 4;

	if (*release != '\0') {
		argv[n++] = "-t";
		argv[n++] = release;
	}
	argv[n++] = "install";
	for (; *packages != NULL && n < WORDS_MAX - 1; packages++)
		argv[n++] = *packages;
	return guest_tool_run(&t, e);
}

/* An old list of packages names versions that the mirror has removed. */
static int apt_update(struct err *e)
{
	static const char *const argv[] = { "apt-get", "-qq", "update", NULL };

	return guest_tool_run(&(struct guest_tool){ .argv = argv, .dir = -1, .in = -1, .out = -1 },
			      e);
}

/* "bookworm-backports", by the name of the machine's release. "": it has none. */
static void level_backports(char *ret, size_t cap)
{
	static const char key[] = "\nVERSION_CODENAME=";
	char text[4096];
	struct err e;
	const char *at = NULL;

	ret[0] = '\0';
	if (io_read_file(AT_FDCWD, "/etc/os-release", text, sizeof(text), &e) >= 0)
		at = strstr(text, key);
	if (at == NULL)
		return;
	at += strlen(key);
	(void)snprintf(ret, cap, "%.*s-backports", (int)strcspn(at, "\n\""), at);
}

/* apt-get's words for a release missing in its sources. They are the only sign: its exit code is
 * the same for every error. */
#define NO_RELEASE "is invalid for APT::Default-Release"

static int no_backports(const char *release, struct err *e)
{
	char why[80];

	(void)snprintf(why, sizeof(why), "%.79s", e->msg);
	return err_set(e, ERR_UNSUPPORTED,
		       "%s; apt has no %s: add `deb MIRROR %s main` (MIRROR as in your other "
		       "lines) to /etc/apt/sources.list.d/backports.list",
		       why, release, release);
}

/* First by the lists that apt has. Then by new lists. Then from the backports of the release,
 * where Debian has newer versions. The caller gets the error of the last try without backports,
 * or the line to add where apt has no backports. */
static int get_packages(const char *const *packages, struct err *e)
{
	char release[64];
	struct err why;

	if (geteuid() != 0)
		return err_set(e, ERR_DENIED,
			       "packages are installed by root only: run it as root");
	(void)printf("installing");
	for (const char *const *p = packages; *p != NULL; p++)
		(void)printf(" %s", *p);
	(void)printf("\n");
	(void)fflush(stdout);
	if (apt_install("", packages, e) == 0)
		return 0;
	if (apt_update(&why) == 0 && apt_install("", packages, e) == 0)
		return 0;
	level_backports(release, sizeof(release));
	if (*release == '\0')
		return err_wrap(e, "install");
	if (apt_install(release, packages, &why) == 0)
		return 0;
	return strstr(why.msg, NO_RELEASE) == NULL ? err_wrap(e, "install")
						   : no_backports(release, e);
}

/* ---- gvisor */

/* A program that fails runsc_check() does not count, so `install` replaces one that is too old. */
static bool has_runsc(void)
{
	uint32_t release;
	int opened = -1;
	struct err e;

	if (runsc_open("", &opened, &e) < 0)
		return false;
	OWN_FD fd = opened;
	return runsc_check(fd, &release, &e) == 0;
}

/* Debian has runsc. No other source is used: the package manager verifies its origin. */
static int install_gvisor(const struct level_options *o, struct err *e)
{
	static const char *const packages[] = { "runsc", NULL };

	return has_runsc() ? 0 : get_packages(packages, e);
}

/* ---- microvm */

/* A folder without a readable manifest counts as no kernel, so an interrupted installation is
 * made again. */
static bool has_kernel(const char *state_dir)
{
	struct guest_manifest m;
	struct err e;
	int dir = -1;

	if (guest_files_open_dir(state_dir, &dir, &e) < 0)
		return false;
	OWN_FD held = dir;
	return guest_manifest_read(held, &m, &e) == 0;
}

/* QEMU and the unpackers first, because the unpacking of the kernel package needs them. Only
 * missing programs are installed. --deb replaces an existing kernel. */
static int install_microvm(const struct level_options *o, struct err *e)
{
	static const struct {
		const char *program, *package;
	} needed[] = { { "/usr/bin/qemu-system-x86_64", "qemu-system-x86" },
		       { "/usr/bin/lz4", "lz4" },
		       { "/usr/bin/zstd", "zstd" },
		       { "/usr/bin/xz", "xz-utils" } };
	const char *packages[COUNT(needed) + 1] = { NULL };
	struct guest_manifest m;
	size_t n = 0;

	for (size_t i = 0; i < COUNT(needed); i++)
		if (access(needed[i].program, X_OK) < 0)
			packages[n++] = needed[i].package;
	if (n > 0 && get_packages(packages, e) < 0)
		return -1;
	if (o->deb == NULL && has_kernel(o->state_dir))
		return 0;
	if (guest_install(o->state_dir, o->deb, &m, e) < 0)
		return err_wrap(e, "the kernel of guests");
	(void)printf("installed the guest kernel %s in %s/" GUEST_FOLDER "\n", m.release,
		     o->state_dir);
	return 0;
}

/* ---- the present state */

/* Show the disk space of the template host at level microvm, before a session needs it. Too
 * little room is an error of `install`: the first session would otherwise be the one that fails,
 * after minutes. */
static int show_host(const char *state_dir, struct err *e)
{
	uint64_t bytes, room = host_size_room(state_dir);

	if (host_size(0, &bytes, e) < 0)
		return -1;
	(void)printf("template  host has %llu MiB at this level, once and after each change of the "
		     "machine's packages;\n          %llu MiB are free for %s\n",
		     (unsigned long long)(bytes >> 20), (unsigned long long)(room >> 20),
		     state_dir);
	if (bytes <= room)
		return 0;
	return err_set(e, ERR_LIMIT,
		       "there is no room for the template host at level microvm: make room, set "
		       "storage_dir to a larger disk, or use a smaller template");
}

/* Print one line. An impossible level is an error with the reason, which `install` reports and
 * `show` ignores. */
static int level_show(enum cell_level_id level, const char *state_dir, struct err *e)
{
	struct level_machine m;
	const struct cell_level_state *s = &m.states[level];

	level_machine_init(&m);
	level_machine_find_one(level, NULL, state_dir, &m);
	level_machine_release(&m);
	(void)printf("%-9s %s\n", cell_level_of(level)->name,
		     s->is_possible ? s->note[0] == '\0' ? "possible" : s->note : s->why);
	if (s->is_possible)
		return 0;
	return err_set(e, ERR_UNSUPPORTED, "level %s is not possible here: %.200s",
		       cell_level_of(level)->name, s->why);
}

/* The levels in the order of the table. A level's note says how it would run, or why it cannot. */
static int show_json(const char *state_dir, struct err *e)
{
	const struct cell_level *l;
	struct json j;

	json_init_heap(&j, JSON_MAX);
	json_open(&j, NULL, '{');
	json_open(&j, "levels", '[');
	for (size_t i = 0; (l = cell_level_at(i)) != NULL; i++) {
		struct level_machine m;
		const struct cell_level_state *s = &m.states[l->id];

		level_machine_init(&m);
		level_machine_find_one(l->id, NULL, state_dir, &m);
		level_machine_release(&m);
		json_open(&j, NULL, '{');
		json_text(&j, "name", l->name);
		json_bool(&j, "possible", s->is_possible);
		json_text(&j, "note", s->is_possible ? s->note : s->why);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_close(&j, '}');
	return print_json(&j, e);
}

static int show_all(const struct level_options *o, struct err *e)
{
	const struct cell_level *l;

	if (o->json)
		return show_json(o->state_dir, e);
	for (size_t i = 0; (l = cell_level_at(i)) != NULL; i++)
		IGNORED(level_show(l->id, o->state_dir, e), "the line says it");
	return 0;
}

/* Success is the state afterwards and not the end of apt-get: the level must be possible now. */
static int level_install(const struct cell_level *l, const struct level_options *o, struct err *e)
{
	if ((l->id == CELL_GVISOR ? install_gvisor : install_microvm)(o, e) < 0 ||
	    level_show(l->id, o->state_dir, e) < 0)
		return -1;
	if (l->id == CELL_MICROVM && show_host(o->state_dir, e) < 0)
		return -1;
	(void)printf(
		"A running server offers it after its next start; `cordon doctor` tries it.\n");
	return 0;
}

/* The words "install LEVEL" stand before the options. */
static int level_main(int argc, char **argv)
{
	static struct config config;
	struct config_starter starter;
	struct level_options o = { .deb = NULL };
	bool wants = argc > 0 && strcmp(argv[0], "install") == 0;
	const char *name = wants && argc > 1 ? argv[1] : "";
	const struct cell_level *l = cell_level_find(name);
	int words = wants ? argc > 1 ? 2 : 1 : 0, n;
	struct err e;

	for (int i = 0; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			options_help(&level_verb, stdout);
			return 0;
		}
	config_starter_find(&starter, environ);
	config_defaults(&config, &starter);
	o.state_dir = config.state_dir;
	n = options_parse(&level_verb, argc - words, argv + words, &o, NULL, &e);
	if (n >= 0 && argc > words + n)
		n = err_set(&e, ERR_INVALID, "'%.40s' is not understood", argv[words + n]);
	else if (n >= 0 && wants && (l == NULL || l->id == CELL_CONTAINER))
		n = err_set(&e, ERR_INVALID, "install: '%.40s' is none of gvisor, microvm", name);
	else if (n >= 0 && wants && o.json)
		n = err_set(&e, ERR_INVALID, "--json: not with install");
	if (n < 0)
		return level_fail(&level_verb, &e, true);
	if ((wants ? level_install(l, &o, &e) : show_all(&o, &e)) < 0)
		return level_fail(&level_verb, &e, false);
	return 0;
}

const struct verb level_verb = {
	.name = "level",
	.usage = "[install gvisor|microvm] [OPTION ...]",
	.summary = "Shows the levels this machine can do; install gets what one needs.",
	.text = "install gvisor gets runsc, of Debian or of its backports. install microvm gets "
		"QEMU "
		"and the kernel\n"
		"of guests (cordon guest), and says what the machine's files, which are the "
		"template host, take at\n"
		"that level. Packages are installed with apt-get, by root. What is there already "
		"is "
		"left alone.\n"
		"\n"
		"Without install it shows each level, and why it is not possible.\n",
	.examples = "cordon level\n"
		    "cordon level install gvisor\n",
	.options = options,
	.noptions = COUNT(options),
	.run = level_main,
};
