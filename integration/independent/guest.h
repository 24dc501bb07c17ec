// SPDX-License-Identifier: MIT OR Apache-2.0

/* What a driver has of the machine it runs in. Two things are one: a front end that stands for a VMM
 * (vhost_user.c), and a virtual machine whose device is on its PCI bus (pci.c). */
#ifndef GUEST_H
#define GUEST_H

#include <stdint.h>

#define PAGE 4096u
/* protocol.md, 1: the two virtqueues. */
#define CONTROL_QUEUE 0u
#define EVENT_QUEUE 1u
#define QUEUES 2u
/* protocol.md, 1, "Configuration space". */
#define CONFIG_SIZE 64u

/* A page of guest memory. */
struct page {
    uint8_t *here;
    uint64_t address; /* guest-physical */
};

struct guest {
    uint8_t config[CONFIG_SIZE];
    /* Where the BAR is, for the driver; null where the VMM has none. */
    volatile uint8_t *bar;
    /* A guest-physical address where there is no memory. */
    uint64_t nowhere;
    /* Zeroed, and never given back. */
    struct page (*new_page)(struct guest *guest);
    /* Tells the device that there is something in a queue. */
    void (*kick)(struct guest *guest, unsigned queue);
    /* Returns when the device may have done something. */
    void (*wait)(struct guest *guest);
    /* The driver has put its queues into these pages. */
    void (*start)(struct guest *guest, const struct page queues[QUEUES]);
    /* The device is told that the driver goes. */
    void (*stop)(struct guest *guest);
};

struct guest *vhost_user_guest(const char *socket_path);
struct guest *pci_guest(void);

#endif
