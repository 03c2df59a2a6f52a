//! Tests that read no clock and no setting of the machine, and share nothing but a temporary
//! directory of their own each: one program, which takes less to link than one for each file.

mod advice;
mod cause_adds_up;
mod cause_classify;
mod cause_evidence;
mod cause_kvm;
mod cause_pages;
mod cause_perfetto;
mod cause_perfetto_joined;
mod cause_timer_thread;
mod cause_trace_dat;
mod import_spec;
mod record_events;
mod record_spec;
mod record_windows;
mod report_by_cpu;
mod report_compare;
mod report_effects;
mod report_every_release;
mod report_every_series;
mod report_extremes;
mod report_focus;
mod report_modes;
mod report_page;
mod report_rows;
mod report_spikes;
mod report_statistics;
mod report_summary;
mod report_sweeps;
mod report_tables;
mod report_verdict;
mod report_worst_cpu;
mod report_worth;
