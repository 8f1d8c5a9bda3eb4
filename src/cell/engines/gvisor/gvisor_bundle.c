/* gvisor_bundle.c - see gvisor_bundle.h. Called by engine_gvisor.c. */
#include "cell/engines/gvisor/gvisor_bundle.h"

#include <inttypes.h>
#include <stdio.h>

#include "lib/json/json.h"
#include "lib/wire/cell_spec.h"

/* The capabilities of root in the guest: those of root in a container (cell/keeper/restrict.c). */
static const char *const standard_caps[] = {
	"CAP_CHOWN",   "CAP_DAC_OVERRIDE",     "CAP_FOWNER",	 "CAP_FSETID",
	"CAP_KILL",    "CAP_SETGID",	       "CAP_SETUID",	 "CAP_SETPCAP",
	"CAP_SETFCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_AUDIT_WRITE",
};

static void gvisor_bundle_write_caps(struct json *j)
{
	static const char *const sets[] = { "bounding", "effective", "permitted" };

	json_open(j, "capabilities", '{');
	for (size_t i = 0; i < COUNT(sets); i++) {
		json_open(j, sets[i], '[');
		for (size_t c = 0; c < COUNT(standard_caps); c++)
			json_text(j, NULL, standard_caps[c]);
		json_close(j, ']');
	}
	json_close(j, '}');
}

static void gvisor_bundle_write_rlimit(struct json *j, const char *type, uint64_t value)
{
	json_open(j, NULL, '{');
	json_text(j, "type", type);
	json_uint(j, "soft", value);
	json_uint(j, "hard", value);
	json_close(j, '}');
}

static void gvisor_bundle_write_process(struct json *j, const struct boot_request *r)
{
	bool locked = r->profile == CELL_LOCKED;
	char uid[12], gid[12];

	json_open(j, "process", '{');
	json_open(j, "user", '{');
	json_uint(j, "uid", 0);
	json_uint(j, "gid", 0);
	json_close(j, '}');
	json_open(j, "args", '[');
	json_text(j, NULL, "cordon-init");
	json_text(j, NULL, "guest");
	if (locked) { /* it gives up its rights itself, when its limits are set */
		(void)snprintf(uid, sizeof(uid), "%" PRIu32, r->uid);
		(void)snprintf(gid, sizeof(gid), "%" PRIu32, r->gid);
		json_text(j, NULL, uid);
		json_text(j, NULL, gid);
	}
	json_close(j, ']');
	json_text(j, "cwd", "/");
	gvisor_bundle_write_caps(j);
	json_open(j, "rlimits", '[');
	gvisor_bundle_write_rlimit(j, "RLIMIT_CORE", 0);
	if (r->nofile != 0)
		gvisor_bundle_write_rlimit(j, "RLIMIT_NOFILE", r->nofile);
	json_close(j, ']');
	json_close(j, '}');
}

static void gvisor_bundle_write_mount(struct json *j, const char *at, const char *type,
				      const char *source, const char *option1, const char *option2)
{
	json_open(j, NULL, '{');
	json_text(j, "destination", at);
	json_text(j, "type", type);
	json_text(j, "source", source);
	json_open(j, "options", '[');
	if (option1 != NULL)
		json_text(j, NULL, option1);
	if (option2 != NULL)
		json_text(j, NULL, option2);
	json_close(j, ']');
	json_close(j, '}');
}

/* /tmp by name: else runsc puts a file system in the guest's memory over an empty one. The cgroup
 * file system is where cordon-init sets how many processes there may be. */
static void gvisor_bundle_write_mounts(struct json *j, const struct boot_request *r)
{
	char size[32];

	(void)snprintf(size, sizeof(size), "size=%" PRIu64, r->disk_bytes);
	json_open(j, "mounts", '[');
	gvisor_bundle_write_mount(j, "/proc", "proc", "proc", NULL, NULL);
	gvisor_bundle_write_mount(j, "/dev", "tmpfs", "tmpfs", NULL, NULL);
	gvisor_bundle_write_mount(j, "/dev/shm", "tmpfs", "tmpfs", "mode=1777",
				  r->disk_bytes != 0 ? size : NULL);
	gvisor_bundle_write_mount(j, "/sys/fs/cgroup", "cgroup", "cgroup", NULL, NULL);
	gvisor_bundle_write_mount(j, "/tmp", "bind", "/tmp", "rbind", NULL);
	json_close(j, ']');
}

/* No network namespace: the guest's sockets are sockets of the cell. */
static void gvisor_bundle_write_linux(struct json *j)
{
	static const char *const kinds[] = { "pid", "ipc", "uts", "mount" };

	json_open(j, "linux", '{');
	json_open(j, "namespaces", '[');
	for (size_t i = 0; i < COUNT(kinds); i++) {
		json_open(j, NULL, '{');
		json_text(j, "type", kinds[i]);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
}

size_t gvisor_bundle_write(const struct boot_request *r, char *ret, size_t cap)
{
	struct json j;

	json_init(&j, ret, cap);
	json_open(&j, NULL, '{');
	json_text(&j, "ociVersion", "1.0.0");
	json_text(&j, "hostname", r->hostname);
	json_open(&j, "root", '{');
	json_text(&j, "path", GVISOR_ROOT);
	json_close(&j, '}');
	gvisor_bundle_write_process(&j, r);
	gvisor_bundle_write_mounts(&j, r);
	gvisor_bundle_write_linux(&j);
	json_close(&j, '}');
	return json_ok(&j) ? j.len : 0;
}
