/* evil_rings.c - a driver of virtio devices that lies: part of guest_evil.c. It takes the devices
 * from the kernel's driver and writes their registers itself (virtio-mmio, versions 1 and 2). Each
 * round resets the device, gives it queues with sizes and addresses that are good, too large,
 * outside of the memory, or the registers themselves, and rings with loops, lengths and indices of
 * any kind. A good queue has 128 entries and is one page: descriptors, then available, then used
 * ones. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest_evil.h"

#define DRIVER "/evil/sys/bus/platform/drivers/virtio-mmio"
#define BUS 0xfeb00000UL /* QEMU's machine microvm: at most 24 devices, 512 bytes each */
#define DEVICES 24
#define ROUNDS 400
#define PAGES 16
#define PAGE 4096
#define ENTRIES 128
#define AVAIL_AT (16 * ENTRIES)
#define USED_AT 2560 /* behind it, at a multiple of 512 */

enum {
	MAGIC = 0x00,
	VERSION = 0x04,
	DEVICE = 0x08,
	FEATURES = 0x10,
	FEATURES_SEL = 0x14,
	ACCEPTED = 0x20,
	ACCEPTED_SEL = 0x24,
	PAGE_SIZE_OF = 0x28, /* version 1 */
	QUEUE = 0x30,
	QUEUE_MAX = 0x34,
	QUEUE_SIZE = 0x38,
	QUEUE_ALIGN = 0x3c, /* version 1 */
	QUEUE_PAGE = 0x40,  /* version 1 */
	QUEUE_READY = 0x44,
	NOTIFY = 0x50,
	STATUS = 0x70,
	DESC = 0x80,
	AVAIL = 0x90,
	USED = 0xa0,
	CONFIG = 0x100,
};

struct desc {
	uint64_t at;
	uint32_t len;
	uint16_t flags, next;
};

static volatile uint32_t *regs;
static uint8_t *pages[PAGES];
static uint64_t physical[PAGES];
static unsigned long notified;

static uint32_t get(unsigned at)
{
	return regs[at / 4];
}

static void put(unsigned at, uint32_t value)
{
	regs[at / 4] = value;
}

static uint32_t any(uint32_t n)
{
	return (uint32_t)rand() % n;
}

static void unbind_all(void)
{
	struct dirent **list;
	int fd = open(DRIVER "/unbind", O_WRONLY | O_CLOEXEC);
	int n = scandir(DRIVER, &list, NULL, NULL);

	for (int i = 0; i < n; i++)
		if (strchr(list[i]->d_name, ':') != NULL)
			(void)!write(fd, list[i]->d_name, strlen(list[i]->d_name));
	(void)close(fd);
}

/* Pages of this program, with their addresses in the machine. */
static int take_pages(void)
{
	int fd = open("/evil/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	for (int i = 0; i < PAGES; i++) {
		uint64_t entry = 0;

		pages[i] = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | MAP_LOCKED, -1, 0);
		memset(pages[i], 0, PAGE);
		if (pread(fd, &entry, 8, (off_t)((uintptr_t)pages[i] / PAGE * 8)) != 8)
			return -1;
		physical[i] = (entry & ((1ULL << 55) - 1)) * PAGE;
	}
	(void)close(fd);
	return physical[0] != 0 ? 0 : -1;
}

static int find_device(uint32_t kind)
{
	int fd = open("/evil/dev/mem", O_RDWR | O_SYNC | O_CLOEXEC);
	uint8_t *bus = mmap(NULL, DEVICES * 512, PROT_READ | PROT_WRITE, MAP_SHARED, fd, BUS);

	if (bus == MAP_FAILED) {
		evil_say("/dev/mem: %d, errno %d", fd, errno);
		return -1;
	}
	for (unsigned i = 0; i < DEVICES; i++) {
		regs = (volatile uint32_t *)(void *)(bus + i * 512UL);
		if (get(MAGIC) == 0x74726976 && get(DEVICE) == kind)
			return 0;
	}
	evil_say("device %x has %x %x %x", kind, get(MAGIC), get(VERSION), get(DEVICE));
	return -1;
}

/* Somewhere: mostly a page of this program, else where no driver would point to. */
static uint64_t place(int own)
{
	const uint64_t odd[] = { 0,
				 BUS,
				 BUS + 0x2e00,
				 0xfee00000,
				 0xfffffffffffff000,
				 1ULL << 40,
				 (128ULL << 20) - 8,
				 (uint64_t)any(1 << 16) * PAGE };

	return any(4) != 0 ? physical[own] : odd[any(sizeof(odd) / sizeof(*odd))];
}

static void put_address(unsigned at, uint64_t value)
{
	put(at, (uint32_t)value);
	put(at + 4, (uint32_t)(value >> 32));
}

static void make_queue(uint32_t number, int own)
{
	const uint32_t sizes[] = { ENTRIES, ENTRIES, ENTRIES, 8, 1, 0, 3, 65535, 0x7fffffff };
	uint64_t at = place(own);

	put(QUEUE, number);
	put(QUEUE_SIZE, sizes[any(9)]);
	if (get(VERSION) == 1) {
		put(QUEUE_ALIGN, any(8) != 0 ? 512 : (uint32_t)rand());
		put(QUEUE_PAGE, (uint32_t)(at / PAGE));
		return;
	}
	put_address(DESC, at);
	put_address(AVAIL, (any(8) != 0 ? at : place(own)) + AVAIL_AT);
	put_address(USED, (any(8) != 0 ? at : place(own)) + USED_AT);
	put(QUEUE_READY, 1);
}

static void fill_ring(int own)
{
	const uint32_t lengths[] = { 0, 1, 16, PAGE, 1 << 20, 0x7fffffff, 0xffffffff };
	struct desc *d = (void *)pages[own];
	uint16_t *avail = (void *)(pages[own] + AVAIL_AT);

	for (unsigned i = 0; i < ENTRIES; i++) {
		d[i] = (struct desc){ .at = place(2 + (int)any(PAGES - 2)) + any(3) * 8,
				      .len = lengths[any(7)],
				      .flags = (uint16_t)any(8) };
		d[i].next = (uint16_t)(any(3) == 0 ? i : any(3) == 0 ? 60000 : any(ENTRIES));
		avail[2 + i] = (uint16_t)(any(8) == 0 ? any(65536) : any(ENTRIES));
	}
	/* requests of a disk that are almost right */
	for (int i = 2; i < PAGES; i++)
		memset(pages[i], (int)any(12), 64);
	avail[1] = (uint16_t)(avail[1] + (any(4) == 0 ? any(65536) : 1 + any(8)));
}

static void round_of(uint32_t queues)
{
	put(STATUS, 0);
	put(STATUS, 1);
	put(STATUS, 3);
	for (uint32_t half = 0; half < 2; half++) {
		put(FEATURES_SEL, half);
		uint32_t offered = get(FEATURES);
		put(ACCEPTED_SEL, half);
		put(ACCEPTED, any(4) == 0 ? (uint32_t)rand() : offered);
	}
	put(STATUS, 11);
	put(PAGE_SIZE_OF, PAGE);
	for (uint32_t q = 0; q < queues; q++)
		make_queue(q, (int)(q % 2));
	put(STATUS, 15);
	for (int i = 0; i < 4; i++) {
		fill_ring(0);
		fill_ring(1);
		for (uint32_t q = 0; q < queues; q++) {
			put(NOTIFY, any(8) == 0 ? any(70000) : q);
			notified++;
		}
		put(CONFIG + 4 * any(16), (uint32_t)rand());
	}
	if (any(3) == 0)
		put(STATUS, (uint32_t)rand());
}

static void attack(uint32_t kind, uint32_t queues, const char *name)
{
	unbind_all();
	if (take_pages() < 0 || find_device(kind) < 0) {
		evil_say("%s: no device, pages at %lx", name, (unsigned long)physical[0]);
		return;
	}
	evil_say("%s begins", name);
	for (unsigned i = 0; i < ROUNDS; i++)
		round_of(queues);
	evil_say("%s: %u rounds, %lu notes", name, ROUNDS, notified);
}

void evil_console(void)
{
	attack(3, 6, "console");
}

void evil_disk(void)
{
	attack(2, 2, "disk");
}
