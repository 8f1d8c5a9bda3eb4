/* session_guest.c - see session_guest.h. */
#include "daemon/guest/session_guest.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/guest/guest_image.h"
#include "daemon/guest/memory_images.h"
#include "daemon/guest/root_images.h"
#include "daemon/guest/session_level.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session_op.h"
#include "daemon/session/session_spec.h"
#include "daemon/store/store_layer.h"
#include "daemon/template/template_stack.h"
#include "daemon/template/templates.h"
#include "daemon/template/templates_private.h"
#include "daemon/tenant/image_charge.h"
#include "lib/base/hex.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/session_id.h"
#include "lib/base/sha256.h"

#define MIB (1ULL << 20)
#define USER_ID 1000
#define IMAGE_CPU_MILLIS 1000 /* of a guest that becomes an image */
#define GUEST_CPUS 1	      /* clones with more were not tried */

enum { ROOT, MEMORY, LAYERS }; /* positions of the uses */

/* A session that waits for its images. */
struct guest_boot {
	struct session_op op; /* first */
	session_guest_fn *on_ready;
	struct completion wait;
	struct storage_job job;
	struct root_image *root;     /* of the template. Valid during the wait for it */
	struct memory_image *memory; /* the same */
	char layers[LAYERS][STORE_ID_MAX];
	bool own_memory;	     /* the memory is the session's: it was paused */
	int root_fd;		     /* owned. Or -1 */
	int image[LIVE_GUEST_IMAGE]; /* owned. Or -1 */
	int changes, later;	     /* the same, of an image of another session */
	struct boot_request request;
	struct keeper_create plan;
};

/* All cells of a session have one id: a guest that continues after a pause is the same machine. */
static void name_machine(const char *id, char ret[BOOT_MACHINE_ID_MAX])
{
	char text[STORE_ID_MAX + 16];
	uint8_t sum[SHA256_SIZE];

	(void)snprintf(text, sizeof(text), "machine %s", id);
	sha256_of(text, strlen(text), sum);
	hex_encode(sum, 16, ret);
}

void guest_fill_request(const struct core *c, const struct store_session *row, const char *id,
			struct boot_request *ret)
{
	const struct cell_limits *l = &row->limits;
	bool vm = cell_level_of(row->level)->engine == CELL_ENGINE_MICROVM;

	*ret = (struct boot_request){ .engine = vm ? BOOT_MICROVM : BOOT_GVISOR,
				      .accel = !vm	      ? BOOT_ACCEL_AUTO
					       : c->o.use_kvm ? BOOT_ACCEL_KVM
							      : BOOT_ACCEL_TCG,
				      .vcpus = vm ? GUEST_CPUS : 0,
				      .profile = row->profile,
				      .options = vm && row->read_only ? BOOT_READ_ONLY : 0,
				      .uid = USER_ID,
				      .gid = USER_ID,
				      .memory_bytes =
					      vm ? l->memory_bytes / MIB * MIB : l->memory_bytes,
				      .disk_bytes = l->disk_bytes,
				      .inodes = l->inodes,
				      .pids = l->pids,
				      .nofile = l->nofile };
	(void)snprintf(ret->hostname, sizeof(ret->hostname), "%.63s", id);
	name_machine(id, ret->machine_id);
}

void session_guest_request(const struct session *s, struct boot_request *ret)
{
	guest_fill_request(s->core, &s->row, s->row.id, ret);
}

/* ---- ends */

static void guest_release(struct guest_boot *b)
{
	struct memory_image *waited = completion_is_waiting(&b->wait) ? b->memory : NULL;

	completion_cancel(&b->wait);
	if (waited != NULL)
		memory_image_leave(waited);
	storage_link_cancel(&b->op.session->core->storage, &b->job);
	io_close_all(&b->root_fd, 1);
	io_close_all(b->image, LIVE_GUEST_IMAGE);
	io_close_all(&b->changes, 1);
	io_close_all(&b->later, 1);
	session_op_end(&b->op);
	free(b);
}

static void on_boot_lost(struct session_op *op, const struct err *why)
{
	guest_release((struct guest_boot *)op);
}

static const struct session_op_calls guest_boot_calls = { .kind = SESSION_OP_GUEST_BOOT,
							  .on_lost = on_boot_lost,
							  .on_free = on_boot_lost };

static void guest_fail(struct guest_boot *b, const struct err *e)
{
	struct session *s = b->op.session;
	session_guest_fn *on_ready = b->on_ready;
	struct keeper_create plan = b->plan;
	struct err why = *e;

	guest_release(b);
	on_ready(s, &plan, NULL, NULL, &why);
}

static int copy_fd(int fd, const char *what, struct err *e)
{
	int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		return err_set(e, ERR_UNSUPPORTED, "the server has no %s", what);
	return copy < 0 ? err_sys(e, "%s", what) : copy;
}

/* Add a descriptor to the request, in the order of enum boot_fd. */
static int add_fd(struct boot_request *r, int *fds, enum boot_fd which, int fd, const char *what,
		  struct err *e)
{
	int copy = copy_fd(fd, what, e);

	if (copy < 0) {
		io_close_all(fds, boot_fds_count(r->fds));
		return -1;
	}
	fds[boot_fds_count(r->fds)] = copy;
	r->fds |= which;
	return 0;
}

/* Fill in the request for a guest started from the beginning. */
static int fill_cold(const struct core *c, int root, struct boot_request *r, int *fds,
		     struct err *e)
{
	const int *files = c->o.level_files;

	if (add_fd(r, fds, BOOT_FD_KERNEL, files[SERVE_LEVEL_KERNEL], "guest kernel", e) < 0 ||
	    add_fd(r, fds, BOOT_FD_INITRD, files[SERVE_LEVEL_INITRD], "guest kernel", e) < 0)
		return -1;
	return add_fd(r, fds, BOOT_FD_ROOT, root, "root image", e);
}

int guest_fill_fds(const struct core *c, int root, const int *image, struct boot_request *r,
		   int *fds, struct err *e)
{
	if (r->engine == BOOT_GVISOR)
		return add_fd(r, fds, BOOT_FD_ENGINE, c->o.level_files[SERVE_LEVEL_RUNSC], "runsc",
			      e);
	if (image[0] < 0)
		return fill_cold(c, root, r, fds, e);
	r->flags = BOOT_RESTORE;
	if (add_fd(r, fds, BOOT_FD_ROOT, root, "root image", e) < 0 ||
	    add_fd(r, fds, BOOT_FD_RAM, image[0], "memory image", e) < 0)
		return -1;
	/* Else the devices come later. */
	return image[1] < 0 ? 0 : add_fd(r, fds, BOOT_FD_DEVICES, image[1], "memory image", e);
}

/* The session uses its layers from here on. */
static int write_uses(struct guest_boot *b, struct err *e)
{
	const struct session *s = b->op.session;
	size_t n = b->own_memory ? LAYERS : 1;

	if (b->layers[ROOT][0] == '\0')
		return 0;
	return store_layer_use(s->core->store, STORE_LAYER_GUEST_OF_SESSION, s->row.id,
			       (const char(*)[STORE_ID_MAX])b->layers, n, e);
}

static void guest_ready(struct guest_boot *b)
{
	struct session *s = b->op.session;
	session_guest_fn *on_ready = b->on_ready;
	struct keeper_create plan = b->plan;
	struct boot_request request;
	int fds[BOOT_FDS_MAX];
	struct err e;

	if (write_uses(b, &e) < 0 ||
	    guest_fill_fds(s->core, b->root_fd, b->image, &b->request, fds, &e) < 0 ||
	    (b->changes >= 0 &&
	     add_fd(&b->request, fds, BOOT_FD_CHANGES, b->changes, "memory image", &e) < 0) ||
	    (b->later >= 0 &&
	     add_fd(&b->request, fds, BOOT_FD_LATER, b->later, "memory image", &e) < 0)) {
		guest_fail(b, &e);
		return;
	}
	request = b->request;
	guest_release(b);
	on_ready(s, &plan, &request, fds, NULL);
}

static void on_ready_soon(struct completion *done, const struct err *e)
{
	guest_ready(done->arg);
}

/* ---- an image of the session's own */

static void on_loaded(struct completion *done, const struct err *e)
{
	struct guest_boot *b = done->arg;

	if (e != NULL) {
		guest_fail(b, e);
		return;
	}
	image_charge_of_session(b->op.session, b->job.reply.bytes);
	guest_ready(b);
}

static int copy_image(struct guest_boot *b, struct guest_image *g, struct err *e)
{
	if (g->pending) {
		b->image[0] = copy_fd(g->image[0], "memory image", e);
		return b->image[0] < 0 ? -1 : guest_image_wait(g, &b->later, e);
	}
	if (memory_image_copy(g->image, b->image, e) < 0)
		return -1;
	if (g->changes < 0)
		return 0;
	b->changes = copy_fd(g->changes, "memory image", e);
	return b->changes < 0 ? -1 : 0;
}

static void on_root_ready(struct completion *done, const struct err *e)
{
	struct guest_boot *b = done->arg;
	int copy[LIVE_GUEST_IMAGE];
	struct err why;

	if (e != NULL) {
		guest_fail(b, e);
		return;
	}
	if (b->op.session->guest.image != NULL) {
		if (copy_image(b, b->op.session->guest.image, &why) < 0)
			guest_fail(b, &why);
		else
			guest_ready(b);
	} else if (memory_image_make_empty(b->image, copy, &why) < 0) {
		guest_fail(b, &why);
	} else {
		b->job.done = (struct completion){ .on_done = on_loaded, .arg = b };
		b->job.tenant = b->op.session->row.tenant;
		storage_link_memory_load(&b->op.session->core->storage, &b->job, b->layers[MEMORY],
					 copy);
	}
}

static void on_root_opened(struct completion *done, const struct err *e)
{
	struct guest_boot *b = done->arg;

	if (e == NULL)
		b->root_fd = TAKE_FD(b->job.fd);
	on_root_ready(done, e);
}

static void open_root(struct guest_boot *b)
{
	struct core *c = b->op.session->core;
	int open = root_image_fd(c, b->layers[ROOT]);
	struct err e;

	if (open >= 0) {
		b->root_fd = copy_fd(open, "root image", &e);
		b->wait = (struct completion){ .on_done = on_root_ready, .arg = b };
		completion_end_soon(&b->wait, c->loop, b->root_fd < 0 ? &e : NULL);
		return;
	}
	b->job.done = (struct completion){ .on_done = on_root_opened, .arg = b };
	b->job.tenant = b->op.session->row.tenant;
	storage_link_root_open(&b->op.session->core->storage, &b->job, b->layers[ROOT]);
}

/* ---- images of the template */

/* Without a memory image the guest starts from the beginning. */
static void on_memory(struct completion *done, const struct err *e)
{
	struct guest_boot *b = done->arg;

	struct err why;

	if (e == NULL && memory_image_copy(b->memory->image, b->image, &why) < 0) {
		guest_fail(b, &why);
		return;
	}
	if (e == NULL)
		memcpy(b->op.session->guest.clone_of, b->memory->digest, sizeof(b->memory->digest));
	else
		log_warn("a guest starts without a memory image", "session_id=%s error=%s",
			 b->op.session->row.id, e->msg);
	guest_ready(b);
}

/* Limits of the server's own: the session that asks first must not set those of an image that all
 * others wait for. Only the size of the memory is the session's. */
static int plan_cold(void *arg, struct guest_cold *ret, struct err *e)
{
	const struct guest_boot *b = arg;
	const struct core *c = b->op.session->core;
	const struct config *g = c->o.config;
	struct store_session row = { .level = b->op.session->row.level,
				     .profile = CELL_STANDARD,
				     .limits = { .memory_bytes =
							 b->op.session->row.limits.memory_bytes,
						 .disk_bytes = g->disk_default,
						 .inodes = g->inodes_default,
						 .pids = g->pids_default,
						 .nofile = g->nofile_default } };

	ret->plan = b->plan;
	ret->plan.limits = (struct cell_limits){ .memory_bytes = row.limits.memory_bytes,
						 .cpu_millis = b->plan.limits.cpu_millis == 0
								       ? 0 /* the machine cannot */
								       : IMAGE_CPU_MILLIS,
						 .pids = row.limits.pids };
	session_level_plan(c, &row, &ret->plan);
	session_id_make(c->o.config->node_name, ret->plan.id);
	(void)snprintf(ret->plan.hostname, sizeof(ret->plan.hostname), "%.63s", ret->plan.id);
	guest_fill_request(c, &row, ret->plan.id, &ret->request);
	return fill_cold(c, b->root_fd, &ret->request, ret->fds, e);
}

/* Layers of its own make an image for this session, in the quota of its tenant. */
static struct root_image_user root_user(const struct session *s)
{
	return s->own == NULL ? (struct root_image_user){ s->template, s->template->row.tenant, "" }
			      : (struct root_image_user){ s->template, s->row.tenant, s->row.id };
}

static void on_root(struct completion *done, const struct err *e)
{
	struct guest_boot *b = done->arg;
	const struct session *s = b->op.session;
	const struct root_image_user user = root_user(s);
	struct memory_image_ask ask = { .version = s->template,
					.root = b->root,
					.tenant = s->row.tenant,
					.memory_bytes = b->request.memory_bytes,
					.vcpus = b->request.vcpus,
					.guest = s->core->o.guest_key,
					.cold = plan_cold,
					.arg = b };
	struct err why;

	if (e != NULL) {
		guest_fail(b, e);
		return;
	}
	b->root_fd = copy_fd(b->root->fd, "root image", &why);
	if (b->root_fd < 0 || root_image_use(b->root, &user, &why) < 0) {
		guest_fail(b, &why);
		return;
	}
	memcpy(b->layers[ROOT], b->root->layer, sizeof(b->layers[ROOT]));
	if (s->own != NULL) { /* no other session would continue with a memory image of it */
		guest_ready(b);
		return;
	}
	b->wait = (struct completion){ .on_done = on_memory, .arg = b };
	memory_image_get(s->core, &ask, &b->wait, &b->memory);
}

/* ---- the beginning */

static_assert(STORE_GUEST_MAX >= SERVE_GUEST_ORIGIN_MAX, "the text fits into rows");

void session_guest_set_origin(struct session *s)
{
	const char *text = "";

	if (s->guest.image != NULL)
		text = s->guest.image->guest;
	else if (template_has_memory(s->template))
		text = s->template->row.provenance;
	else if (session_level(s)->engine == CELL_ENGINE_MICROVM)
		text = s->core->o.guest_origin;
	(void)snprintf(s->row.guest_origin, sizeof(s->row.guest_origin), "%.*s",
		       STORE_GUEST_MAX - 1, text);
}

/* The images that it continues with: [root, memory]. Return their number. The files of a snapshot
 * with memory are nowhere else. */
static int find_own(struct guest_boot *b, struct err *e)
{
	const struct session *s = b->op.session;
	int n;

	if (s->guest.image != NULL) {
		memcpy(b->layers[ROOT], s->guest.image->root, sizeof(b->layers[ROOT]));
		return LAYERS;
	}
	n = store_layer_used(s->core->store, STORE_LAYER_GUEST_OF_SESSION, s->row.id, b->layers,
			     LAYERS, e);
	b->own_memory = n == LAYERS;
	/* Files of its own: it was paused without its memory since. */
	if (n < 0 || n == LAYERS || !template_has_memory(s->template) || s->own != NULL)
		return n;
	n = store_layer_used(s->core->store, STORE_LAYER_GUEST_OF_SNAPSHOT, s->template->row.id,
			     b->layers, LAYERS, e);
	if (n >= 0 && n < LAYERS)
		return err_set(e, ERR_NOT_FOUND, "the memory of the snapshot is missing");
	return n;
}

static void prepare_vm(struct guest_boot *b)
{
	struct session *s = b->op.session;
	const struct root_image_user user = root_user(s);
	struct template_stack stack;
	struct err e;
	int n = find_own(b, &e);

	if (n == LAYERS) {
		open_root(b);
		return;
	}
	memset(b->layers, 0, sizeof(b->layers));
	memcpy(s->row.guest_origin, s->core->o.guest_origin, sizeof(s->core->o.guest_origin));
	b->wait = (struct completion){ .on_done = on_root, .arg = b };
	if (n < 0 || session_spec_stack(s->template, &s->row, s->own, &stack, NULL, &e) < 0)
		completion_end_soon(&b->wait, s->core->loop, &e);
	else
		root_image_get(s->core, &user, &stack, &b->wait, &b->root);
}

void session_guest_prepare(struct session *s, const struct keeper_create *plan,
			   session_guest_fn *on_ready)
{
	struct guest_boot *b = calloc(1, sizeof(*b));

	assert(b != NULL);
	*b = (struct guest_boot){ .on_ready = on_ready,
				  .root_fd = -1,
				  .image = { -1, -1 },
				  .changes = -1,
				  .later = -1,
				  .job.fd = -1,
				  .plan = *plan };
	session_op_begin(&b->op, s, &guest_boot_calls);
	session_guest_request(s, &b->request);
	if (b->request.engine == BOOT_MICROVM) {
		prepare_vm(b);
		return;
	}
	b->wait = (struct completion){ .on_done = on_ready_soon, .arg = b };
	completion_end_soon(&b->wait, s->core->loop, NULL);
}

/* ---- for cells made in advance */

int session_guest_claim(const struct session *s, struct err *e)
{
	char root[1][STORE_ID_MAX];

	memcpy(root[0], s->cell->root_image, sizeof(root[0]));
	if (root[0][0] == '\0')
		return 0;
	return store_layer_use(s->core->store, STORE_LAYER_GUEST_OF_SESSION, s->row.id,
			       (const char(*)[STORE_ID_MAX])root, 1, e);
}

void session_guest_went_on(struct session *s)
{
	guest_image_unuse(s->guest.image);
	s->guest.image = NULL; /* later cells have the memory of its own pauses */
}

int session_guest_root(const struct session *s, char ret[STORE_ID_MAX], struct err *e)
{
	char layers[LAYERS][STORE_ID_MAX];
	int n = store_layer_used(s->core->store, STORE_LAYER_GUEST_OF_SESSION, s->row.id, layers,
				 LAYERS, e);

	if (n < 0)
		return -1;
	if (n == 0)
		return err_set(e, ERR_NOT_FOUND, "session %s has no root image", s->row.id);
	memcpy(ret, layers[ROOT], STORE_ID_MAX);
	return 0;
}
