//! INFO: what the server does and holds, in the sections and under the names monitoring knows
//! from Redis where the meaning is the same, and in a section `velella` where it is not.
//!
//! Tests: below, and `tests/redis_py.py`.

use super::census;
use super::failure::Outcome;
use super::handshake::REDIS_VERSION;
use super::row::{Context, Row};
use crate::databases::DATABASES;
use crate::resp::request::Args;
use std::fmt::Write;
use velella::JournalMode;
use velella_sync::atomic::Ordering;
use velella_sync::thread::wall_ms;

pub(crate) const ROWS: &[Row] =
    &[Row::new("info", -1, 0, info).doc("server", "1.0.0", "What the server does and holds.")];

type Section = fn(&mut Context<'_>, &mut String) -> Outcome;

/// Each section: its name, whether INFO without arguments has it, and who writes it.
const SECTIONS: &[(&str, bool, Section)] = &[
    ("Server", true, server),
    ("Clients", true, clients),
    ("Memory", true, memory),
    ("Persistence", true, persistence),
    ("Stats", true, stats),
    ("Replication", true, replication),
    ("CPU", true, cpu),
    ("Modules", true, |_, _| Ok(())),
    ("Commandstats", false, commandstats),
    ("Errorstats", true, |_, _| Ok(())),
    ("Cluster", true, cluster),
    ("Keyspace", true, keyspace),
    ("Velella", true, engine),
];

fn info(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let asked = |name: &[u8]| {
        args.from(1)
            .iter()
            .any(|arg| arg.eq_ignore_ascii_case(name))
    };
    let all = asked(b"all") || asked(b"everything");
    let default = args.len() == 1 || asked(b"default");
    let mut text = String::new();
    for &(name, by_default, section) in SECTIONS {
        if all || default && by_default || asked(name.as_bytes()) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            text.push_str(&format!("# {name}\r\n"));
            section(ctx, &mut text)?;
        }
    }
    ctx.reply.verbatim(&text);
    Ok(())
}

/// Writes `name:value` lines.
macro_rules! lines {
    ($text:ident, $($name:literal => $value:expr),+ $(,)?) => {
        $( write!($text, concat!($name, ":{}\r\n"), $value)
            .expect("writing to a string cannot fail"); )+
    };
}

fn server(ctx: &mut Context<'_>, text: &mut String) -> Outcome {
    let up = ctx.shared.started.elapsed().as_secs();
    lines!(text,
        "redis_version" => REDIS_VERSION,
        "velella_version" => env!("CARGO_PKG_VERSION"),
        "redis_mode" => "standalone",
        "os" => std::env::consts::OS,
        "arch_bits" => usize::BITS,
        "multiplexing_api" => "epoll",
        "process_id" => std::process::id(),
        "run_id" => &ctx.shared.run_id,
        "tcp_port" => ctx.shared.address.port(),
        "server_time_usec" => wall_ms() * 1000,
        "uptime_in_seconds" => up,
        "uptime_in_days" => up / 86_400,
        "io_threads_active" => u8::from(ctx.shared.config.threads > 1),
        "network_threads" => ctx.shared.config.threads,
    );
    Ok(())
}

fn clients(ctx: &mut Context<'_>, text: &mut String) -> Outcome {
    lines!(text,
        "connected_clients" => ctx.shared.clients.len(),
        // Relaxed: a setting, see `Settings`.
        "maxclients" => ctx.shared.settings.maxclients.load(Ordering::Relaxed),
        "blocked_clients" => 0,
    );
    Ok(())
}

/// Memory of the process that is resident, in bytes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

fn human(bytes: u64) -> String {
    let units = ["B", "K", "M", "G", "T"];
    let mut unit = 0;
    let mut whole = bytes;
    while whole >= 1024 && unit + 1 < units.len() {
        whole /= 1024;
        unit += 1;
    }
    let per_unit = 1u64 << (10 * unit);
    let hundredths = (bytes % per_unit) * 100 / per_unit;
    if unit == 0 {
        format!("{bytes}B")
    } else {
        format!("{whole}.{hundredths:02}{}", units[unit])
    }
}

fn memory(ctx: &mut Context<'_>, text: &mut String) -> Outcome {
    let resident = resident_bytes();
    // Relaxed: a number for people.
    let peak = ctx
        .shared
        .peak_memory
        .fetch_max(resident, Ordering::Relaxed)
        .max(resident);
    let budget = ctx.shared.db.options().memory;
    lines!(text,
        "used_memory" => resident,
        "used_memory_human" => human(resident),
        "used_memory_rss" => resident,
        "used_memory_rss_human" => human(resident),
        "used_memory_peak" => peak,
        "used_memory_peak_human" => human(peak),
        "maxmemory" => budget,
        "maxmemory_human" => human(budget),
        "maxmemory_policy" => "noeviction",
        "mem_allocator" => "libc",
    );
    Ok(())
}

fn persistence(ctx: &mut Context<'_>, text: &mut String) -> Outcome {
    let db = &ctx.shared.db;
    let stats = db.stats();
    let writable = stats.read_only.is_none();
    let status = |well: bool| if well { "ok" } else { "err" };
    lines!(text,
        "loading" => 0,
        "rdb_changes_since_last_save" => stats.last_stamp.saturating_sub(stats.durable_stamp),
        "rdb_bgsave_in_progress" => 0,
        // Relaxed: a number for people.
        "rdb_last_save_time" => ctx.shared.last_save_ms.load(Ordering::Relaxed) / 1000,
        "rdb_last_bgsave_status" => status(writable && stats.shortage.is_none()),
        "aof_enabled" => u8::from(db.options().journal != JournalMode::Off),
        "aof_rewrite_in_progress" => 0,
        "aof_last_write_status" => status(writable),
    );
    Ok(())
}

fn stats(ctx: &mut Context<'_>, text: &mut String) -> Outcome {
    let shared = ctx.shared;
    let commands = |counters: &crate::counters::Counters| {
        counters
            .commands
            .iter()
            .map(|command| command.calls.get())
            .sum()
    };
    lines!(text,
        "total_connections_received" => shared.total(|counters| counters.connections.get()),
        "total_commands_processed" => shared.total(commands),
        "total_net_input_bytes" => shared.total(|counters| counters.bytes_in.get()),
        "total_net_output_bytes" => shared.total(|counters| counters.bytes_out.get()),
        // Relaxed: a number for people.
        "rejected_connections" => shared.refused.load(Ordering::Relaxed),
        "keyspace_hits" => shared.total(|counters| counters.hits.get()),
        "keyspace_misses" => shared.total(|counters| counters.misses.get()),
        "evicted_keys" => 0,
        "evicted_clients" => 0,
        "total_error_replies" => shared.total(|counters| counters.errors.get()),
        "total_reads_processed" => shared.total(|counters| counters.reads.get()),
        "total_writes_processed" => shared.total(|counters| counters.writes.get()),
    );
    Ok(())
}

fn replication(ctx: &mut Context<'_>, text: &mut String) -> Outcome {
    lines!(text,
        "role" => "master",
        "connected_slaves" => 0,
        "master_replid" => &ctx.shared.run_id,
        "master_repl_offset" => 0,
    );
    Ok(())
}

fn cpu(_: &mut Context<'_>, text: &mut String) -> Outcome {
    // The fields behind the name, which may itself hold spaces: utime and stime in ticks of 10 ms.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split(' ').collect();
    let hundredths = |field: usize| -> u64 {
        fields
            .get(field)
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    };
    let seconds = |ticks: u64| format!("{}.{:02}0000", ticks / 100, ticks % 100);
    lines!(text,
        "used_cpu_sys" => seconds(hundredths(13)),
        "used_cpu_user" => seconds(hundredths(12)),
    );
    Ok(())
}

fn commandstats(ctx: &mut Context<'_>, text: &mut String) -> Outcome {
    for number in 0..ctx.table.len() {
        let total = |count: fn(&crate::counters::CommandCounts) -> u64| {
            ctx.shared
                .total(|counters| count(&counters.commands[number]))
        };
        let calls = total(|command| command.calls.get());
        let rejected = total(|command| command.rejected.get());
        if calls + rejected == 0 {
            continue;
        }
        let nanos = total(|command| command.nanos.get());
        let (micros, each) = (nanos / 1000, nanos / calls.max(1));
        let failed = total(|command| command.failed.get());
        write!(
            text,
            "cmdstat_{}:calls={calls},usec={micros},usec_per_call={}.{:02},\
             rejected_calls={rejected},failed_calls={failed}\r\n",
            ctx.table.name(number),
            each / 1000,
            each % 1000 / 10,
        )
        .expect("writing to a string cannot fail");
    }
    Ok(())
}

fn cluster(_: &mut Context<'_>, text: &mut String) -> Outcome {
    lines!(text, "cluster_enabled" => 0);
    Ok(())
}

fn keyspace(ctx: &mut Context<'_>, text: &mut String) -> Outcome {
    for database in 0..DATABASES {
        if let Some(count) = census::keys_of(ctx, database)?.filter(|count| count.keys > 0) {
            write!(
                text,
                "db{database}:keys={},expires={},avg_ttl={}\r\n",
                count.keys, count.expiring, count.mean_ttl_ms
            )
            .expect("writing to a string cannot fail");
        }
    }
    Ok(())
}

fn engine(ctx: &mut Context<'_>, text: &mut String) -> Outcome {
    let stats = ctx.shared.db.stats();
    lines!(text,
        "last_stamp" => stats.last_stamp,
        "durable_stamp" => stats.durable_stamp,
        "snapshots" => stats.snapshots,
        "memory_budget" => stats.memory.budget,
        "memory_memtables" => stats.memory.memtables,
        "memory_block_cache" => stats.memory.block_cache,
        "memory_spare" => stats.memory.spare,
        "memory_filters_and_indexes" => stats.memory.filters_and_indexes,
        "memory_journal_mappings" => stats.memory.journal_mappings,
        "journal_access" => &stats.journal.access,
        "journal_records" => stats.journal.records,
        "journal_bytes" => stats.journal.bytes,
        "journal_syncs" => stats.journal.syncs,
        "journal_unflushed_bytes" => stats.journal.unflushed_bytes,
        "cache_hits" => stats.cache.hits,
        "cache_misses" => stats.cache.misses,
        "network_polls" => ctx.shared.total(|counters| counters.polls.get()),
        "network_reads_in_vain" => ctx.shared.total(|counters| counters.reads_in_vain.get()),
        "durability_waits" => ctx.shared.total(|counters| counters.durability_waits.get()),
        "panics" => ctx.shared.total(|counters| counters.panics.get()),
    );
    for (name, why) in [
        ("read_only", &stats.read_only),
        ("shortage", &stats.shortage),
    ] {
        if let Some(why) = why {
            write!(text, "{name}:{}\r\n", why.replace(['\r', '\n'], " "))
                .expect("writing to a string cannot fail");
        }
    }
    for stall in &stats.stalls {
        write!(
            text,
            "stall_{}:count={},total_us={},max_us={}\r\n",
            stall.cause.replace([' ', ':'], "_"),
            stall.count,
            stall.total_us,
            stall.max_us
        )
        .expect("writing to a string cannot fail");
    }
    for keyspace in &stats.keyspaces {
        for level in &keyspace.levels {
            write!(
                text,
                "level_{}_{}:tables={},bytes={},entries={}\r\n",
                keyspace.name, level.level, level.tables, level.bytes, level.entries
            )
            .expect("writing to a string cannot fail");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_printed_for_people() {
        assert_eq!(human(512), "512B");
        assert_eq!(human(1536), "1.50K");
        assert_eq!(human(1 << 30), "1.00G");
    }
}
