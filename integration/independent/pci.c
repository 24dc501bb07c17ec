// SPDX-License-Identifier: MIT OR Apache-2.0

/* A device on the PCI bus of a virtual machine, through sysfs: transport.md, "On a PCI bus".
 * Source of its structures: VIRTIO 1.3, 4.1. Interrupts are not needed: this driver looks. */
#include "failure.h"
#include "guest.h"
#include "protocol.h"
#include "virtqueue.h"
#include "words.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEVICES "/sys/bus/pci/devices"
#define VENDOR 0x1af4u
/* 0x1040 and the virtio id. */
#define DEVICE 0x1067u

/* The command register: decode memory, and be a bus master. */
#define COMMAND 4
#define COMMAND_BITS (1u << 1 | 1u << 2)

/* Types of virtio-pci capabilities. */
enum { COMMON = 1, NOTIFY = 2, DEVICE_CONFIG = 4, SHARED_MEMORY = 8 };

/* The common configuration. */
enum {
    DRIVER_FEATURE_SELECT = 8,
    DRIVER_FEATURE = 12,
    DEVICE_STATUS = 20,
    QUEUE_SELECT = 22,
    QUEUE_SIZE_REGISTER = 24,
    QUEUE_ENABLE = 28,
    QUEUE_NOTIFY_OFFSET = 30,
    QUEUE_DESCRIPTORS = 32,
    QUEUE_AVAILABLE = 40,
    QUEUE_USED = 48,
};

enum { ACKNOWLEDGE = 1, DRIVER = 2, DRIVER_OK = 4, FEATURES_OK = 8 };

struct pci {
    struct guest guest;
    char folder[300];
    int pagemap;
    volatile uint8_t *common;
    volatile uint8_t *notify;
    uint32_t notify_multiplier;
    volatile uint8_t *queue_notify[QUEUES];
};

static uint32_t read_number(const char *folder, const char *name)
{
    char path[400], text[32] = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, text, sizeof text - 1) <= 0)
        fail_with_errno(path);
    close(file);
    return (uint32_t)strtoul(text, NULL, 0);
}

static void find(struct pci *pci)
{
    DIR *devices = opendir(DEVICES);
    if (devices == NULL)
        fail_with_errno(DEVICES);
    for (struct dirent *entry; (entry = readdir(devices)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(pci->folder, sizeof pci->folder, "%s/%s", DEVICES, entry->d_name);
        if (read_number(pci->folder, "vendor") == VENDOR
            && read_number(pci->folder, "device") == DEVICE) {
            closedir(devices);
            return;
        }
    }
    fail("no PCI device is %04x:%04x; with --socket-path PATH it need not be one", VENDOR, DEVICE);
}

/* Maps a part of a BAR; parts begin where the device likes, mappings with a page. */
static volatile uint8_t *map(const struct pci *pci, unsigned bar, uint64_t offset, uint64_t length)
{
    char path[400];
    uint64_t before = offset % PAGE;
    snprintf(path, sizeof path, "%s/resource%u", pci->folder, bar);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        fail_with_errno(path);
    uint8_t *mapped = mmap(NULL, length + before, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                           (off_t)(offset - before));
    if (mapped == MAP_FAILED)
        fail_with_errno("cannot map a BAR; unbind the driver that has the device");
    close(file);
    return mapped + before;
}

static volatile uint8_t *parse_capabilities(struct pci *pci, const uint8_t *config)
{
    volatile uint8_t *device = NULL;
    for (unsigned at = config[0x34]; at >= 0x40; at = config[at + 1]) {
        const uint8_t *capability = config + at;
        if (capability[0] != 0x09 || at > 256 - 24)
            continue;
        unsigned bar = capability[4];
        uint64_t offset = get32(capability + 8), length = get32(capability + 12);
        switch (capability[3]) {
        case COMMON:
            pci->common = map(pci, bar, offset, length);
            break;
        case NOTIFY:
            pci->notify = map(pci, bar, offset, length);
            pci->notify_multiplier = get32(capability + 16);
            break;
        case DEVICE_CONFIG:
            device = map(pci, bar, offset, length);
            break;
        case SHARED_MEMORY:
            /* Of 64 bits each; the region's id is 0. */
            offset |= (uint64_t)get32(capability + 16) << 32;
            length |= (uint64_t)get32(capability + 20) << 32;
            if (capability[5] == 0)
                pci->guest.bar = map(pci, bar, offset, length);
            break;
        }
    }
    if (pci->common == NULL || pci->notify == NULL || device == NULL)
        fail("the device lacks a virtio structure");
    return device;
}

static void set8(volatile uint8_t *at, uint8_t value) { *at = value; }
static void set16(volatile uint8_t *at, uint16_t value) { *(volatile uint16_t *)at = value; }
static void set32(volatile uint8_t *at, uint32_t value) { *(volatile uint32_t *)at = value; }

static void set64(volatile uint8_t *at, uint64_t value)
{
    set32(at, (uint32_t)value);
    set32(at + 4, (uint32_t)(value >> 32));
}

static void reset_device(struct pci *pci)
{
    struct timespec start = now();
    set8(pci->common + DEVICE_STATUS, 0);
    while (pci->common[DEVICE_STATUS] != 0) {
        sched_yield();
        check_time(&start, "the end of a reset");
    }
}

/* Anonymous memory that is locked stays in memory; where it is the kernel tells who may administer it. */
static struct page new_page(struct guest *guest)
{
    struct pci *pci = (struct pci *)guest;
    uint64_t entry;
    void *here = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED | MAP_POPULATE, -1, 0);
    if (here == MAP_FAILED)
        fail_with_errno("cannot lock a page; see ulimit -l");
    memset(here, 0, PAGE);
    off_t at = (off_t)((uintptr_t)here / PAGE * sizeof entry);
    if (pread(pci->pagemap, &entry, sizeof entry, at) != sizeof entry)
        fail_with_errno("/proc/self/pagemap");
    uint64_t frame = entry & ((1ull << 55) - 1);
    if (!(entry >> 63) || frame == 0)
        fail("the kernel does not tell where a page is; that takes CAP_SYS_ADMIN");
    return (struct page){here, frame * PAGE};
}

static void kick(struct guest *guest, unsigned queue)
{
    struct pci *pci = (struct pci *)guest;
    set16(pci->queue_notify[queue], (uint16_t)queue);
}

static void await(struct guest *guest)
{
    (void)guest;
    sched_yield();
}

static void start(struct guest *guest, const struct page queues[QUEUES])
{
    struct pci *pci = (struct pci *)guest;
    volatile uint8_t *common = pci->common;
    reset_device(pci);
    set8(common + DEVICE_STATUS, ACKNOWLEDGE);
    set8(common + DEVICE_STATUS, ACKNOWLEDGE | DRIVER);
    /* VIRTIO_F_VERSION_1 is bit 32, and all that there is. */
    for (uint32_t half = 0; half < 2; half++) {
        set32(common + DRIVER_FEATURE_SELECT, half);
        set32(common + DRIVER_FEATURE, half);
    }
    set8(common + DEVICE_STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK);
    if (!(common[DEVICE_STATUS] & FEATURES_OK))
        fail("the device refuses VIRTIO_F_VERSION_1");
    for (uint16_t queue = 0; queue < QUEUES; queue++) {
        set16(common + QUEUE_SELECT, queue);
        set16(common + QUEUE_SIZE_REGISTER, QUEUE_SIZE);
        set64(common + QUEUE_DESCRIPTORS, queues[queue].address);
        set64(common + QUEUE_AVAILABLE, queues[queue].address + AVAILABLE_OFFSET);
        set64(common + QUEUE_USED, queues[queue].address + USED_OFFSET);
        uint16_t place = *(volatile uint16_t *)(common + QUEUE_NOTIFY_OFFSET);
        pci->queue_notify[queue] = pci->notify + place * pci->notify_multiplier;
        set16(common + QUEUE_ENABLE, 1);
    }
    set8(common + DEVICE_STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
}

static void stop(struct guest *guest)
{
    reset_device((struct pci *)guest);
}

struct guest *pci_guest(void)
{
    struct pci *pci = calloc(1, sizeof *pci);
    uint8_t config[256], command[2];
    char path[400];
    if (pci == NULL)
        fail("no memory");
    find(pci);
    snprintf(path, sizeof path, "%s/config", pci->folder);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0 || pread(file, config, sizeof config, 0) != sizeof config)
        fail_with_errno(path);
    put16(command, (uint16_t)(get16(config + COMMAND) | COMMAND_BITS));
    if (pwrite(file, command, sizeof command, COMMAND) != sizeof command)
        fail_with_errno(path);
    close(file);
    pci->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (pci->pagemap < 0)
        fail_with_errno("/proc/self/pagemap");
    volatile uint8_t *device = parse_capabilities(pci, config);
    for (unsigned at = 0; at < CONFIG_SIZE; at += 4)
        put32(pci->guest.config + at, *(volatile uint32_t *)(device + at));
    /* Addresses of 52 bits are all that there can be, and no machine has memory at their end. */
    pci->guest.nowhere = (1ull << 52) - PAGE;
    pci->guest.new_page = new_page;
    pci->guest.kick = kick;
    pci->guest.wait = await;
    pci->guest.start = start;
    pci->guest.stop = stop;
    return &pci->guest;
}
