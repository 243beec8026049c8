#include "pipeline.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::reshape {

namespace {

constexpr std::size_t kLongestLayout = std::size_t{1} << 20U;

[[noreturn]] void refuse_layout(const std::string& layout, const std::string& why) {
    throw Error(
        ErrorCode::usage, "--to legacy: layout=" + printable(layout) + " " + why,
        "write E, t for each decoder layer, m for each MTP layer and L in this order, with | "
        "between stages, such as Ett|ttt|tL");
}

/// The number that "*12" at `at` says, which is left behind it; 1 where there is none.
std::size_t times_at(const std::string& text, std::size_t& at) {
    std::size_t end = at + 1;
    while (at < text.size() && text[at] == '*' && end < text.size() && is_digit(text[end])) {
        ++end;
    }
    if (at >= text.size() || text[at] != '*' || end == at + 1) {
        return 1;
    }
    const auto times = parse_index(text.substr(at + 1, end - at - 1));
    at = end;
    return times ? static_cast<std::size_t>(*times) : kLongestLayout;
}

void repeat(const std::string& part, std::size_t times, const std::string& layout,
            std::string& out) {
    if (times > kLongestLayout || part.size() * times > kLongestLayout - out.size()) {
        refuse_layout(layout, "has more layers than any model");
    }
    for (std::size_t i = 0; i < times; ++i) {
        out += part;
    }
}

/// "(tt|)*3" written out; parentheses do not nest.
std::string without_groups(const std::string& layout) {
    const std::string text = replaced(layout, ",", "");
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        if (text[at] != '(') {
            repeat(text.substr(at++, 1), 1, layout, out);
            continue;
        }
        const std::size_t end = text.find(')', at);
        if (end == std::string::npos || end == at + 1) {
            refuse_layout(layout, "has a ( without what it repeats");
        }
        const std::string group = text.substr(at + 1, end - at - 1);
        at = end + 1;
        repeat(group, times_at(text, at), layout, out);
    }
    return out;
}

/// "t*3" written out.
std::string without_repeats(const std::string& text, const std::string& layout) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        const std::string letter = text.substr(at++, 1);
        repeat(letter, times_at(text, at), layout, out);
    }
    return out;
}

Index count_of(const std::string& text, char letter) {
    return std::ranges::count(text, letter);
}

std::string counted_of(Index count, const std::string& noun) {
    return counted(count, noun);
}

/// Error(mismatch) where a layout is of another model.
void require_fits(const ParallelSizes& sizes, const std::string& all, const Depth& depth) {
    const auto refuse = [&](const std::string& noun, char letter, const std::string& wanted) {
        throw Error(ErrorCode::mismatch,
                    "layout=" + printable(sizes.layout) + " has " +
                        counted_of(count_of(all, letter), noun) + ", config.json " + wanted,
                    "write a layout for this model");
    };
    if (count_of(all, 't') != depth.layers) {
        refuse("decoder layer", 't', depth.field + " " + std::to_string(depth.layers));
    }
    if (count_of(all, 'm') != depth.mtp) {
        refuse("MTP layer", 'm', std::to_string(depth.mtp));
    }
}

/// Error(usage) where MTP layers are not all in the last chunk of one rank.
void require_mtp_in_last_chunk(const ParallelSizes& sizes, const std::vector<std::string>& stages) {
    const auto has_mtp = [](const std::string& stage) { return count_of(stage, 'm') > 0; };
    if (std::ranges::count_if(stages, has_mtp) > 1) {
        refuse_layout(sizes.layout, "has MTP layers on several stages");
    }
    const auto found = std::ranges::find_if(stages, has_mtp);
    if (stages.end() - found > sizes.pp) {
        refuse_layout(sizes.layout, "has MTP layers before the last chunk of their rank");
    }
}

/// Error(usage) where Megatron would refuse the order of its parts.
void require_order(const ParallelSizes& sizes, const std::vector<std::string>& stages) {
    const std::string all = joined(stages, "");
    if (!all.starts_with("E") || !all.ends_with("L") || count_of(all, 'E') != 1 ||
        count_of(all, 'L') != 1) {
        refuse_layout(sizes.layout, "does not begin with its one E and end with its one L");
    }
    const auto mtp = all.find('m');
    if (mtp != std::string::npos && all.find('t', mtp) != std::string::npos) {
        refuse_layout(sizes.layout, "has decoder layers behind MTP layers");
    }
    const auto n_stages = std::ssize(stages);
    if (n_stages % sizes.pp != 0 || (sizes.vpp > 0 && sizes.vpp * sizes.pp != n_stages)) {
        refuse_layout(
            sizes.layout,
            "has " + counted_of(n_stages, "stage") + ", which pp=" + std::to_string(sizes.pp) +
                (sizes.vpp > 0 ? " and vpp=" + std::to_string(sizes.vpp) : std::string()) +
                " do not make up");
    }
    require_mtp_in_last_chunk(sizes, stages);
}

Pipeline by_layout(const ParallelSizes& sizes, const Depth& depth) {
    const std::vector<std::string> stages = stages_of_layout(sizes.layout);
    require_order(sizes, stages);
    require_fits(sizes, joined(stages, ""), depth);
    Pipeline pipeline;
    Index first = 0;
    for (const std::size_t s : indices(stages)) {
        const Index count = count_of(stages[s], 't');
        const auto at = static_cast<Index>(s);
        pipeline.push_back({at % sizes.pp, at / sizes.pp, first, count,
                            count_of(stages[s], 'E') > 0, count_of(stages[s], 'm') > 0,
                            count_of(stages[s], 'L') > 0});
        first += count;
    }
    return pipeline;
}

/// Layers of each pipeline rank. Ranks of which first and last say nothing have equally many.
std::vector<Index> layers_by_rank(const ParallelSizes& sizes, const Depth& depth) {
    const Index n_given = (sizes.first > 0 ? 1 : 0) + (sizes.last > 0 ? 1 : 0);
    const Index left = depth.layers - sizes.first - sizes.last;
    const Index ranks = sizes.pp - n_given;
    if (left < 0 || (ranks == 0 && left > 0) || (ranks > 0 && left % ranks != 0)) {
        const std::string given =
            (sizes.first > 0 ? ", first=" + std::to_string(sizes.first) : "") +
            (sizes.last > 0 ? ", last=" + std::to_string(sizes.last) : "");
        throw Error(ErrorCode::mismatch,
                    "config.json has " + depth.field + " " + std::to_string(depth.layers) +
                        ", which cannot be spread evenly over pp=" + std::to_string(sizes.pp) +
                        given,
                    "give another pp, or say with first, last or layout which rank has how many "
                    "layers");
    }
    std::vector<Index> layers(static_cast<std::size_t>(sizes.pp), ranks > 0 ? left / ranks : 0);
    if (sizes.first > 0) {
        layers.front() = sizes.first;
    }
    if (sizes.last > 0) {
        layers.back() = sizes.last;
    }
    return layers;
}

void require_chunks(const std::vector<Index>& layers, Index chunks) {
    const auto odd = std::ranges::find_if(layers, [&](Index n) { return n % chunks != 0; });
    if (odd != layers.end()) {
        throw Error(ErrorCode::mismatch,
                    "pipeline rank " + std::to_string(odd - layers.begin()) + " has " +
                        counted_of(*odd, "layer") + ", which vpp=" + std::to_string(chunks) +
                        " does not divide",
                    "give a vpp that divides the layers of each pipeline rank, or a layout");
    }
}

Pipeline evenly(const ParallelSizes& sizes, const Depth& depth) {
    const std::vector<Index> layers = layers_by_rank(sizes, depth);
    const Index chunks = sizes.chunks();
    require_chunks(layers, chunks);
    Pipeline pipeline;
    Index first = 0;
    for (Index chunk = 0; chunk < chunks; ++chunk) {
        for (Index rank = 0; rank < sizes.pp; ++rank) {
            const Index count = layers[static_cast<std::size_t>(rank)] / chunks;
            pipeline.push_back({rank, chunk, first, count});
            first += count;
        }
    }
    pipeline.front().has_embedding = true;
    pipeline.back().has_head = true;
    pipeline.back().has_mtp = depth.mtp > 0;
    return pipeline;
}

}  // namespace

std::vector<std::string> stages_of_layout(const std::string& layout) {
    const std::string text = without_repeats(without_groups(layout), layout);
    const auto other = text.find_first_not_of("EtmL|");
    if (other != std::string::npos) {
        refuse_layout(layout, "has the letter " + printable(text.substr(other, 1)));
    }
    auto stages = collect_list<std::string>(split(text, '|'), std::identity());
    return stages;
}

Pipeline pipeline_of(const ParallelSizes& sizes, const Depth& depth) {
    return sizes.layout.empty() ? evenly(sizes, depth) : by_layout(sizes, depth);
}

}  // namespace shardweld::reshape
