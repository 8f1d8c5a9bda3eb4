/* layer_origin.c - see layer_origin.h. */
#include "daemon/template/layer_origin.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/guest/root_images.h"
#include "daemon/node/core_private.h"
#include "daemon/template/template_stack.h"
#include "daemon/template/templates_private.h"
#include "lib/base/hex.h"
#include "lib/base/str.h"

#define MIB (1ULL << 20)

/* ---- writing */

void layer_origin_add_machine(struct sha256 *h)
{
	static const char *const places[] = { "/usr",	    "/usr/bin",	  "/usr/lib",
					      "/usr/share", "/usr/local", "/var/lib/dpkg/status",
					      "/etc" };

	for (size_t i = 0; i < COUNT(places); i++) {
		struct stat st = { 0 };

		if (stat(places[i], &st) == 0)
			sha256_add(h, &st.st_mtim, sizeof(st.st_mtim));
	}
}

/* The state of the machine's packages as one word, to be compared later. */
static void name_machine(char ret[LAYER_ORIGIN_MACHINE_MAX])
{
	uint8_t sum[SHA256_SIZE];
	struct sha256 h;

	sha256_init(&h);
	layer_origin_add_machine(&h);
	sha256_end(&h, sum);
	hex_encode(sum, LAYER_ORIGIN_MACHINE_MAX / 2, ret);
}

/* Add a line. A line without room is left out as a whole. */
static void layer_origin_add(char text[LAYER_ORIGIN_MAX], const char *word, const char *value)
{
	size_t n = strlen(text), more = strlen(word) + strlen(value) + 2;

	if (value[0] != '\0' && n + more < LAYER_ORIGIN_MAX)
		(void)snprintf(text + n, LAYER_ORIGIN_MAX - n, "%s\t%s\n", word, value);
}

static void add_lines(char text[LAYER_ORIGIN_MAX], const char *lines)
{
	size_t n = strlen(text);

	if (n + strlen(lines) < LAYER_ORIGIN_MAX)
		str_copy_to(text + n, LAYER_ORIGIN_MAX - n, lines);
}

static void add_template(char text[LAYER_ORIGIN_MAX], const struct template_version *v)
{
	layer_origin_add(text, "template", v->row.name);
	layer_origin_add(text, "version", v->row.id);
}

static void add_stack(char text[LAYER_ORIGIN_MAX], const struct template_stack *stack)
{
	char layers[TEMPLATE_STACK_MAX * STORE_ID_MAX] = "", machine[LAYER_ORIGIN_MACHINE_MAX];
	size_t n = 0;

	for (size_t i = 0; i < stack->nlayers; i++)
		n += (size_t)snprintf(layers + n, sizeof(layers) - n, "%s%s", i == 0 ? "" : " ",
				      stack->layers[i]);
	if (stack->base == TEMPLATE_BASE_HOST) {
		name_machine(machine);
		layer_origin_add(text, "base", "host");
		layer_origin_add(text, "machine", machine);
	} else if (stack->base == TEMPLATE_BASE_DIR) {
		layer_origin_add(text, "base", stack->dir);
	}
	layer_origin_add(text, "layers", layers);
}

void layer_origin_of_root(const struct template_version *v, const struct template_stack *stack,
			  char ret[LAYER_ORIGIN_MAX])
{
	ret[0] = '\0';
	add_template(ret, v);
	add_stack(ret, stack);
}

static void add_memory(char text[LAYER_ORIGIN_MAX], const char *root, uint64_t memory_bytes)
{
	char size[32];

	(void)snprintf(size, sizeof(size), "%lluM", (unsigned long long)(memory_bytes / MIB));
	layer_origin_add(text, "root", root);
	layer_origin_add(text, "memory", size);
}

void layer_origin_of_memory(const struct root_image *root, uint64_t memory_bytes, uint32_t cpus,
			    const char *guest, char ret[LAYER_ORIGIN_MAX])
{
	char count[16];

	(void)snprintf(count, sizeof(count), "%u", cpus);
	ret[0] = '\0';
	add_lines(ret, root->origin);
	add_memory(ret, root->layer, memory_bytes);
	layer_origin_add(ret, "cpus", count);
	add_lines(ret, guest);
}

void layer_origin_of_session(const struct session *s, const char *root, char ret[LAYER_ORIGIN_MAX])
{
	ret[0] = '\0';
	add_template(ret, s->template);
	layer_origin_add(ret, "session", s->row.id);
	add_memory(ret, root, s->row.limits.memory_bytes);
	add_lines(ret, s->row.guest_origin);
}

/* ---- comparing */

const char *layer_stale_name(enum layer_stale s)
{
	static const char *const names[LAYER_STALE_WORDS] = {
		[LAYER_STALE_KERNEL] = "kernel",     [LAYER_STALE_AGENT] = "agent",
		[LAYER_STALE_ENGINE] = "engine",     [LAYER_STALE_MACHINE] = "machine",
		[LAYER_STALE_TEMPLATE] = "template",
	};

	return names[s];
}

void layer_origin_now(const char *guest, struct layer_origin_now *ret)
{
	ret->guest = guest;
	name_machine(ret->machine);
}

/* The text of a word, and its length. NULL: there is no such line. */
static const char *layer_origin_find(const char *lines, const char *word, size_t *ret_len)
{
	size_t len = strlen(word), n;

	for (const char *line = lines; *line != '\0'; line += n + (line[n] == '\n')) {
		n = strcspn(line, "\n");
		if (n <= len || strncmp(line, word, len) != 0 || line[len] != '\t')
			continue;
		*ret_len = n - len - 1;
		return line + len + 1;
	}
	return NULL;
}

/* Both have the word, with different texts. */
static bool layer_origin_differs(const char *then, const char *now, const char *word)
{
	size_t a, b;
	const char *x = layer_origin_find(then, word, &a), *y = layer_origin_find(now, word, &b);

	return x != NULL && y != NULL && (a != b || memcmp(x, y, a) != 0);
}

static bool is_of_another_machine(const char *then, const char *machine)
{
	size_t n;
	const char *x = layer_origin_find(then, "machine", &n);

	return x != NULL && (n != strlen(machine) || memcmp(x, machine, n) != 0);
}

/* Words that one side lacks are not compared: older images have fewer. */
unsigned layer_origin_stale(const struct layer_origin_now *now, const struct store_layer *row)
{
	static const struct {
		const char *word;
		enum layer_stale means;
	} words[] = { { "kernel_digest", LAYER_STALE_KERNEL },
		      { "modules_digest", LAYER_STALE_KERNEL },
		      { "agent_digest", LAYER_STALE_AGENT },
		      { "engine", LAYER_STALE_ENGINE },
		      { "accelerator", LAYER_STALE_ENGINE } };
	const char *then = row->origin == NULL ? "" : row->origin;
	unsigned set = 0;

	for (size_t i = 0; i < COUNT(words); i++)
		if (layer_origin_differs(then, now->guest, words[i].word))
			set |= 1U << words[i].means;
	if (is_of_another_machine(then, now->machine))
		set |= 1U << LAYER_STALE_MACHINE;
	if (row->is_of_old_versions)
		set |= 1U << LAYER_STALE_TEMPLATE;
	return set;
}
