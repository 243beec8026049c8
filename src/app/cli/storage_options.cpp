#include "storage_options.hpp"

#include "shardweld/core/text.hpp"

namespace shardweld::app {

namespace {

constexpr Bytes kStripeUnit = Bytes{64} << 10U;    // lfs-setstripe(1): a multiple of 64 KiB,
constexpr Bytes kLargestStripe = Bytes{1} << 32U;  // less than 4 GiB
constexpr Index kMostTargets = 2000;               // of one file (lfs-setstripe(1))
constexpr Bytes kLeastExtent = 4096;
constexpr Bytes kLargestExtent = Bytes{1} << 30U;
constexpr Bytes kLeastFile = Bytes{64} << 10U;

[[noreturn]] void refuse_striping(const std::string& text) {
    refuse("--stripe " + printable(text) +
           " is not COUNT or COUNT,SIZE: give for example 8, all or 8,4MiB (COUNT up to 2000; SIZE "
           "a multiple of 64KiB below 4GiB)");
}

std::optional<publish::Striping> read_striping(const OptionReader& reader) {
    const auto text = reader.text("stripe");
    if (!text) {
        return std::nullopt;
    }
    const auto parts = split(*text, ',');
    const bool is_all = parts[0] == "all" || parts[0] == "-1";
    const auto count = is_all ? std::optional<Index>(-1) : parse_index(parts[0]);
    if (!count || *count == 0 || *count > kMostTargets || parts.size() > 2) {
        refuse_striping(*text);
    }
    publish::Striping striping{*count, 0};
    if (parts.size() == 2) {
        const auto size = parse_size(parts[1]);
        if (!size || *size == 0 || *size % kStripeUnit != 0 || *size >= kLargestStripe) {
            refuse_striping(*text);
        }
        striping.size = *size;
    }
    return striping;
}

void read_bench(const OptionReader& reader, Options& options) {
    options.bench_size = reader.size("size").value_or(options.bench_size);
    options.extent = reader.size("extent").value_or(options.extent);
    if (options.extent % kLeastExtent != 0 || options.extent > kLargestExtent) {
        refuse("--extent " + std::to_string(options.extent) +
               " is not a multiple of 4096 bytes up to 1GiB");
    }
    if (const auto source = reader.text("source")) {
        options.bench_source = *source;
    }
    if (options.bench_source && reader.has("size")) {
        refuse("--size and --source exclude each other: the source's size is taken");
    }
    if (options.max_shard_size < kLeastFile) {
        refuse("--max_shard_size " + std::to_string(options.max_shard_size) +
               " is too small to measure with: give at least 64KiB");
    }
    options.n_repeats = static_cast<int>(reader.number("repeats", 1).value_or(options.n_repeats));
    options.is_cold = reader.has("cold");
    options.is_kept = reader.has("keep");
    options.copies_only = reader.has("copies_only");
}

}  // namespace

void read_storage(const OptionReader& reader, Options& options) {
    options.striping = read_striping(reader);
    if (const auto roof = reader.text("roof")) {
        options.roof = *roof;
    }
    if (options.command == Command::iobench) {
        read_bench(reader, options);
    }
}

}  // namespace shardweld::app
