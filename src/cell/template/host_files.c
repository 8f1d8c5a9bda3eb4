/* host_files.c - the files of the host template's root directory beside the copies from the
 * machine: the tables that host.c writes to disk. Raise FORMAT in host.c with a change of the
 * directories or links. Texts are part of the fingerprint. */
#include "cell/template/host_files.h"

#include "lib/base/own.h"

#define PATH_ALL "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/" HOST_PROGRAMS

/* For each interactive bash: a prompt with user, host and directory, colours, completion. */
static const char bashrc[] =
	"[ -n \"$PS1\" ] || return\n"
	"shopt -s checkwinsize histappend\n"
	"case $TERM in\n"
	"*color*|xterm*|screen*|tmux*|linux)\n"
	"\tPS1='\\[\\e[32m\\]\\u@\\h\\[\\e[0m\\]:\\[\\e[34m\\]\\w\\[\\e[0m\\]\\$ '\n"
	"\talias ls='ls --color=auto' grep='grep --color=auto' ;;\n"
	"*)\n"
	"\tPS1='\\u@\\h:\\w\\$ ' ;;\n"
	"esac\n"
	"if ! shopt -oq posix && [ -r /usr/share/bash-completion/bash_completion ]; then\n"
	"\t. /usr/share/bash-completion/bash_completion\n"
	"fi\n";

static const char user_bashrc[] =
	"# For interactive shells of this user; /etc/bash.bashrc was read before.\n"
	"alias ll='ls -l' la='ls -A'\n";

static const char user_profile[] =
	"# For login shells of this user.\n"
	"[ -z \"$BASH_VERSION\" ] || [ ! -r ~/.bashrc ] || . ~/.bashrc\n";

/* Parents come before their entries. Mount points of cells are among them. */
const struct host_dir host_dirs[] = {
	{ "etc", 0755, 0 },	   { "etc/pam.d", 0755, 0 },	{ "etc/sudoers.d", 0755, 0 },
	{ "home", 0755, 0 },	   { "home/user", 0755, 1000 }, { "root", 0700, 0 },
	{ "tmp", 01777, 0 },	   { "run", 0755, 0 },		{ "run/lock", 01777, 0 },
	{ "var", 0755, 0 },	   { "var/tmp", 01777, 0 },	{ "var/lib", 0755, 0 },
	{ "var/cache", 0755, 0 },  { "var/log", 0755, 0 },	{ "var/spool", 0755, 0 },
	{ "usr", 0755, 0 },	   { "opt", 0755, 0 },		{ "srv", 0755, 0 },
	{ "mnt", 0755, 0 },	   { "media", 0755, 0 },	{ "proc", 0555, 0 },
	{ "dev", 0755, 0 },	   { "sys", 0555, 0 },		{ "etc/skel", 0755, 0 },
	{ "opt/cordon", 0755, 0 }, { HOST_PROGRAMS, 0755, 0 },
};

/* Every user of a cell is the same tenant, so no password is asked for. */
static const char pam_permit[] =
	"auth required pam_permit.so\naccount required pam_permit.so\n"
	"password required pam_permit.so\nsession required pam_permit.so\n";

const struct host_file host_files[] = {
	{ "etc/passwd", 0644,
	  "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
	  "bin:x:2:2:bin:/bin:/usr/sbin/nologin\nsys:x:3:3:sys:/dev:/usr/sbin/nologin\n"
	  "man:x:6:12:man:/var/cache/man:/usr/sbin/nologin\n"
	  "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
	  "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n"
	  "user:x:1000:1000:user:/home/user:/bin/bash\n"
	  "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n" },
	{ "etc/group", 0644,
	  "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nmail:x:8:\n"
	  "man:x:12:\nsudo:x:27:user\nwww-data:x:33:\nshadow:x:42:\nutmp:x:43:\nstaff:x:50:\n"
	  "users:x:100:\nuser:x:1000:\nnogroup:x:65534:\n" },
	{ "etc/shadow", 0600, "root:*:19000:0:99999:7:::\nuser:*:19000:0:99999:7:::\n" },
	{ "etc/gshadow", 0600, "root:*::\nsudo:*::user\nuser:!::\n" },
	{ "etc/hosts", 0644,
	  "127.0.0.1 localhost cordon\n::1 localhost ip6-localhost ip6-loopback cordon\n" },
	{ "etc/hostname", 0644, "cordon\n" },
	{ "etc/resolv.conf", 0644, "nameserver 198.18.0.1\noptions timeout:2 attempts:3\n" },
	{ "etc/nsswitch.conf", 0644,
	  "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
	  "protocols: files\nservices: files\nethers: files\nrpc: files\n" },
	{ "etc/host.conf", 0644, "multi on\n" },
	{ "etc/networks", 0644, "loopback 127.0.0.0\n" },
	{ "etc/shells", 0644, "/bin/sh\n/bin/bash\n/usr/bin/bash\n/usr/bin/sh\n" },
	{ "etc/timezone", 0644, "Etc/UTC\n" },
	{ "etc/login.defs", 0644,
	  "ENV_PATH PATH=/usr/local/bin:/usr/bin:/bin:/" HOST_PROGRAMS "\n"
	  "ENV_SUPATH PATH=" PATH_ALL "\n"
	  "UID_MIN 1000\nUID_MAX 60000\nGID_MIN 1000\nGID_MAX 60000\nUMASK 022\nENCRYPT_METHOD "
	  "SHA512\n" },
	{ "etc/profile", 0644,
	  "[ -n \"$PATH\" ] || PATH=" PATH_ALL "\n"
	  "export PATH\n"
	  "[ -z \"$BASH_VERSION\" ] || [ -z \"$PS1\" ] || . /etc/bash.bashrc\n" },
	{ "etc/bash.bashrc", 0644, bashrc },
	{ "etc/skel/.bashrc", 0644, user_bashrc },
	{ "etc/skel/.profile", 0644, user_profile },
	{ "etc/sudoers", 0440,
	  "Defaults env_reset, !fqdn\n"
	  "Defaults secure_path=\"" PATH_ALL "\"\n"
	  "root ALL=(ALL:ALL) NOPASSWD: ALL\n%sudo "
	  "ALL=(ALL:ALL) NOPASSWD: ALL\n"
	  "@includedir /etc/sudoers.d\n" },
	{ "etc/pam.d/other", 0644, pam_permit },
	{ "etc/pam.d/sudo", 0644, pam_permit },
	{ "etc/pam.d/su", 0644, pam_permit },
	{ "etc/pam.d/common-auth", 0644, "auth required pam_permit.so\n" },
	{ "etc/pam.d/common-account", 0644, "account required pam_permit.so\n" },
	{ "etc/pam.d/common-password", 0644, "password required pam_permit.so\n" },
	{ "etc/pam.d/common-session", 0644, "session required pam_permit.so\n" },
	{ "etc/pam.d/common-session-noninteractive", 0644, "session required pam_permit.so\n" },
};

/* Targets are paths of a cell. */
const struct host_link host_links[] = {
	{ "var/run", "/run" },
	{ "var/lock", "/run/lock" },
	{ "run/secrets", "/dev/shm/secrets" },	 /* of cells with secrets (secret_builtin.c) */
	{ "etc/machine-id", "/dev/machine-id" }, /* each cell has its own */
	{ "etc/mtab", "/proc/self/mounts" },
	{ "etc/localtime", "/usr/share/zoneinfo/Etc/UTC" },
};

const size_t host_ndirs = COUNT(host_dirs);
const size_t host_nfiles = COUNT(host_files);
const size_t host_nlinks = COUNT(host_links);
