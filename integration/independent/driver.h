// SPDX-License-Identifier: MIT OR Apache-2.0

/* A process on the device, and what it creates there. */
#ifndef DRIVER_H
#define DRIVER_H

#include "control.h"

#include <stdbool.h>

struct driver {
    struct guest *guest;
    struct control control;
    struct adapter_info adapter;
    struct submission_caps caps;
    uint32_t process;
    uint64_t device;
    uint64_t context;
};

/* Pages of guest memory that are an allocation. */
struct allocation {
    uint64_t handle;
    uint64_t gpu_va; /* 0 where it is not mapped */
    struct page page;
};

/* A HW queue for user-mode submission with its ring and doorbell: protocol.md, 3 and 4. */
struct queue {
    struct create_hw_queue_reply hw_queue;
    struct create_doorbell_reply doorbell;
    struct allocation ring, ring_control, commands;
    uint64_t write_pointer;
    uint64_t progress_value;
    unsigned retries;  /* how often it had to connect its doorbell again */
    unsigned notifies; /* how often the device slept */
};

/* Opens the adapter, and creates a process with a device and a context on node 0. */
void driver_open(struct driver *driver, struct guest *guest);

/* Ends the process and stops the device. */
void driver_close(struct driver *driver);

/* A page of the guest's as an allocation, mapped for the GPU if that is wanted. */
struct allocation driver_allocate(struct driver *driver, bool mapped);

/* Maps an allocation, or a part of it; returns where. */
uint64_t driver_map(struct driver *driver, uint64_t allocation, uint64_t size);

/* `private_data` is the doorbell's. */
void queue_create(struct driver *driver, struct queue *queue, uint32_t private_data);

uint32_t queue_connect(struct driver *driver, struct queue *queue);

/* The lower half of the status word. */
uint32_t queue_status(const struct driver *driver, const struct queue *queue);

/* Submits packets, of which a signal of the progress fence becomes the last. */
void queue_submit(struct driver *driver, struct queue *queue, const void *packets, size_t length);

/* Waits until everything that was submitted is done. */
void queue_await(const struct driver *driver, const struct queue *queue);

#endif
