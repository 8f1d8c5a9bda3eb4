/* guest.c - `cordon guest`: see guest.h. What is installed is in src/guest. */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "child_process.h"
#include "config.h"
#include "exit_codes.h"
#include "guest_files.h"
#include "guest_install.h"
#include "guest_package.h"

struct guest_options {
	const char *state_dir, *deb, *initramfs;
};

#define FIELD(name) offsetof(struct guest_options, name)

static const struct option options[] = {
	{ "state-dir", "DIR", OPTION_TEXT, FIELD(state_dir), 0, 0,
	  "state directory of the server (default: as for cordon serve)" },
	{ "deb", "FILE", OPTION_TEXT, FIELD(deb), 0, 0,
	  "install: this kernel package of Debian; nothing is downloaded" },
	{ "initramfs", "FILE", OPTION_TEXT, FIELD(initramfs), 0, 0,
	  "writes the initramfs of guests to a file, to boot one by hand" },
};

static int install(const struct guest_options *o, struct err *e)
{
	struct guest_manifest m;

	if (guest_install(o->state_dir, o->deb, &m, e) < 0)
		return -1;
	(void)printf("installed the guest kernel %s in %s/" GUEST_FOLDER "\n", m.release,
		     o->state_dir);
	return 0;
}

/* What apt has now, if there is an apt that knows. */
static void show_newest(const struct guest_manifest *m)
{
	char newest[GUEST_PACKAGE_MAX];
	bool is_newer;
	struct err e;

	if (guest_package_newest(m->package, newest, &is_newer, &e) < 0)
		(void)printf("newest   not known: %s\n", e.msg);
	else
		(void)printf("newest   %s%s\n", newest,
			     is_newer ? ", newer: `cordon guest install` gets it" : "");
}

static int show(int dir, struct err *e)
{
	struct guest_manifest m;

	if (guest_manifest_read(dir, &m, e) < 0)
		return -1;
	(void)printf("kernel   %s\npackage  %s\nvmlinux  sha256:%s\nmodules  sha256:%s\n",
		     m.release, m.package, m.vmlinux, m.modules);
	show_newest(&m);
	return 0;
}

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

static int write_initramfs(int dir, const char *path, struct err *e)
{
	struct guest_files f;
	char program[256];
	int result;

	if (child_process_beside("cordon-init", program, sizeof(program), e) < 0)
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

static int look(const struct guest_options *o, struct err *e)
{
	int dir = -1;

	if (guest_files_open_dir(o->state_dir, &dir, e) < 0)
		return -1;
	OWN_FD held = dir;
	return o->initramfs != NULL ? write_initramfs(held, o->initramfs, e) : show(held, e);
}

static int fail(const struct err *e)
{
	(void)fprintf(stderr, "cordon guest: %s\n", e->msg);
	return EXIT_CORDON;
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
	return 0;
}

static int guest_main(int argc, char **argv)
{
	static struct config config;
	struct config_starter starter;
	struct guest_options o = { .deb = NULL };
	bool wants_install;
	struct err e;

	for (int i = 0; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0) {
			options_help(&guest_verb, stdout);
			return 0;
		}
	config_starter_find(&starter, environ);
	config_defaults(&config, &starter);
	o.state_dir = config.state_dir;
	if (read_words(argc, argv, &o, &wants_install, &e) < 0)
		return fail(&e);
	return (wants_install ? install : look)(&o, &e) < 0 ? fail(&e) : 0;
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
	.options = options,
	.noptions = COUNT(options),
	.run = guest_main,
};
