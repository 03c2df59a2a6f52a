// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A GPIO chip in memory whose lines are wired in pairs: what is written to line 2n arrives at line
 * 2n + 1, as an edge with an interrupt. So a loop in a guest can be measured from edge to edge,
 * through the kernel's GPIO character device, without a pin.
 *
 * As with gpio-sim, whose lines are pulled through sysfs instead, the interrupt is raised by
 * irq_work: in hard interrupt context, as that of a chip.
 */
#include <linux/bitmap.h>
#include <linux/gpio/driver.h>
#include <linux/irq.h>
#include <linux/irq_work.h>
#include <linux/irqdomain.h>
#include <linux/module.h>

#define LINES 8

static DECLARE_BITMAP(level, LINES);
static DECLARE_BITMAP(outputs, LINES);
static DECLARE_BITMAP(enabled, LINES);
static DECLARE_BITMAP(pending, LINES);
static unsigned int edges[LINES];
static struct gpio_chip wires;

static void raise_pending(struct irq_work *work)
{
	unsigned int line;

	for_each_set_bit(line, pending, LINES) {
		clear_bit(line, pending);
		generic_handle_irq(irq_find_mapping(wires.irq.domain, line));
	}
}

static struct irq_work raise = IRQ_WORK_INIT_HARD(raise_pending);

static int get(struct gpio_chip *chip, unsigned int line)
{
	return test_bit(line, level);
}

static void put(struct gpio_chip *chip, unsigned int line, int value)
{
	unsigned int end = line | 1;
	unsigned int edge = value ? IRQ_TYPE_EDGE_RISING : IRQ_TYPE_EDGE_FALLING;

	assign_bit(line, level, value);
	if (line == end || !!test_bit(end, level) == !!value)
		return;

	assign_bit(end, level, value);
	if (test_bit(end, enabled) && (edges[end] & edge)) {
		set_bit(end, pending);
		irq_work_queue(&raise);
	}
}

static int get_direction(struct gpio_chip *chip, unsigned int line)
{
	return test_bit(line, outputs) ? GPIO_LINE_DIRECTION_OUT : GPIO_LINE_DIRECTION_IN;
}

static int direction_input(struct gpio_chip *chip, unsigned int line)
{
	clear_bit(line, outputs);
	return 0;
}

static int direction_output(struct gpio_chip *chip, unsigned int line, int value)
{
	set_bit(line, outputs);
	put(chip, line, value);
	return 0;
}

static void mask(struct irq_data *data)
{
	clear_bit(irqd_to_hwirq(data), enabled);
	gpiochip_disable_irq(&wires, irqd_to_hwirq(data));
}

static void unmask(struct irq_data *data)
{
	gpiochip_enable_irq(&wires, irqd_to_hwirq(data));
	set_bit(irqd_to_hwirq(data), enabled);
}

static int set_type(struct irq_data *data, unsigned int type)
{
	if (type & ~(unsigned int)IRQ_TYPE_EDGE_BOTH)
		return -EINVAL;
	edges[irqd_to_hwirq(data)] = type;
	return 0;
}

static const struct irq_chip wires_irq = {
	.name = "onbeat-wires",
	.irq_mask = mask,
	.irq_unmask = unmask,
	.irq_set_type = set_type,
	.flags = IRQCHIP_IMMUTABLE,
	GPIOCHIP_IRQ_RESOURCE_HELPERS,
};

static int __init wires_init(void)
{
	wires.label = "onbeat-wires";
	wires.owner = THIS_MODULE;
	wires.base = -1;
	wires.ngpio = LINES;
	wires.get = get;
	wires.set = put;
	wires.get_direction = get_direction;
	wires.direction_input = direction_input;
	wires.direction_output = direction_output;
	gpio_irq_chip_set_chip(&wires.irq, &wires_irq);
	wires.irq.handler = handle_simple_irq;
	wires.irq.default_type = IRQ_TYPE_NONE;
	return gpiochip_add_data(&wires, NULL);
}

static void __exit wires_exit(void)
{
	gpiochip_remove(&wires);
	irq_work_sync(&raise);
}

module_init(wires_init);
module_exit(wires_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("GPIO lines in memory, wired in pairs");
