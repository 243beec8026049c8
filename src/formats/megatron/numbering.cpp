#include "numbering.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/shared/hints.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::megatron {

namespace {

constexpr Index kMostLayers = 1 << 20;

using Layers = std::set<Index>;
// The layers of one stack by (file, chunk).
using LayersByChunk = std::map<std::pair<std::size_t, int>, Layers>;

bool is_stack_name(std::string_view part) {
    return part == "decoder" || part == "encoder" || part == "transformer";
}

/// The parts of names that thousands of files repeat, in the order in which they were added.
class SplitNames {
  public:
    const std::optional<LayerName>& add(SharedText name) {
        const auto [at, is_new] = known_.try_emplace(name);
        if (is_new) {
            at->second = split_layer(name.text());  // views of what is kept
        }
        all_.push_back(&at->second);
        return at->second;
    }
    [[nodiscard]] const std::optional<LayerName>& operator[](std::size_t i) const {
        return *all_[i];
    }

  private:
    std::unordered_map<SharedText, std::optional<LayerName>> known_;
    std::vector<const std::optional<LayerName>*> all_;
};

std::map<std::string, LayersByChunk, std::less<>> collect(const std::vector<Shard>& shards,
                                                          SplitNames& names) {
    std::map<std::string, LayersByChunk, std::less<>> stacks;
    for (const auto& shard : shards) {
        if (const auto& name = names.add(shard.name)) {
            if (name->layer >= kMostLayers) {
                throw Error(ErrorCode::corrupt, "tensor " + printable(shard.name) +
                                                    " has a layer number out of bounds");
            }
            auto stack = stacks.find(name->stack);
            if (stack == stacks.end()) {
                stack = stacks.try_emplace(std::string(name->stack)).first;
            }
            stack->second[{shard.piece.file, shard.at.vpp}].insert(name->layer);
        }
    }
    return stacks;
}

std::string layers_text(const Layers& layers) {
    if (layers.empty()) {
        return "no layers";
    }
    return std::to_string(layers.size()) + " layers up to " + std::to_string(*layers.rbegin());
}

// Numbers the layers of one stack.
class StackOrder {
  public:
    StackOrder(std::string stack, const LayersByChunk& layers, const std::vector<File>& files,
               const std::vector<Coordinates>& places, const Pipeline& pipeline)
        : stack_(std::move(stack)), pipeline_(pipeline) {
        for (int v = 0; v < pipeline.vpp; ++v) {
            for (int p = 0; p < pipeline.pp; ++p) {
                offsets_.push_back(total_);
                total_ += stage_size(layers, files, places, p, v);
            }
        }
    }

    [[nodiscard]] Index offset(int p, int v) const {
        return offsets_[static_cast<std::size_t>(v) * static_cast<std::size_t>(pipeline_.pp) +
                        static_cast<std::size_t>(p)];
    }
    [[nodiscard]] Index total() const { return total_; }

    /// "stage 0 has 2, stage 1 has 1".
    [[nodiscard]] std::string sizes_text() const {
        std::string text;
        for (const std::size_t s : indices(offsets_)) {
            const Index end = s + 1 < offsets_.size() ? offsets_[s + 1] : total_;
            text += (s == 0 ? "stage " : ", stage ") + std::to_string(s) + " has " +
                    std::to_string(end - offsets_[s]);
        }
        return text;
    }

  private:
    [[nodiscard]] Index stage_size(const LayersByChunk& layers, const std::vector<File>& files,
                                   const std::vector<Coordinates>& places, int p, int v) const {
        static const Layers none;
        const Layers* first = nullptr;
        std::size_t first_file = 0;
        for (const std::size_t file : indices(places)) {
            if (places[file].pp != p) {
                continue;
            }
            auto* const at = find_value(layers, {file, v});
            const Layers& mine = at == nullptr ? none : *at;
            if (first == nullptr) {
                first = &mine;
                first_file = file;
            } else if (mine != *first) {
                throw mixed_saves_error(printable(files[first_file].path) + " holds " +
                                        layers_text(*first) + " of " + printable(stack_) + " but " +
                                        printable(files[file].path) +
                                        ", of the same pipeline stage, holds " + layers_text(mine));
            }
        }
        return first == nullptr || first->empty() ? 0 : *first->rbegin() + 1;
    }

    std::string stack_;
    Pipeline pipeline_;
    std::vector<Index> offsets_;
    Index total_ = 0;
};

// args.num_layers counts the language model's layers.
bool is_language_stack(std::string_view stack) {
    if (stack.starts_with("language_model.")) {
        stack.remove_prefix(std::string_view("language_model.").size());
    }
    return split(stack, '.').size() == 3;
}

using Orders = std::map<std::string, StackOrder, std::less<>>;

void require_total(const Orders& orders, const Pipeline& pipeline) {
    const auto is_language = [](const auto& order) { return is_language_stack(order.first); };
    const auto found = std::ranges::find_if(orders, is_language);
    // An encoder and a decoder have a number of layers each.
    if (!pipeline.num_layers || std::ranges::count_if(orders, is_language) != 1 ||
        found->second.total() == *pipeline.num_layers) {
        return;
    }
    throw mixed_saves_error("args.num_layers is " + std::to_string(*pipeline.num_layers) +
                            " but the files hold " + std::to_string(found->second.total()) +
                            " of " + printable(found->first) + ": " + found->second.sizes_text());
}

}  // namespace

std::optional<LayerName> split_layer(std::string_view name) {
    const auto parts = split(name, '.');
    for (std::size_t i = 0; i + 3 < parts.size(); ++i) {
        const auto layer = parse_index(parts[i + 2]);
        if (is_stack_name(parts[i]) && parts[i + 1] == "layers" && layer) {
            const auto begin = static_cast<std::size_t>(parts[i + 2].data() - name.data());
            return LayerName{name.substr(0, begin), *layer,
                             name.substr(begin + parts[i + 2].size())};
        }
    }
    return std::nullopt;
}

void number_layers(std::vector<Shard>& shards, const std::vector<File>& files,
                   const std::vector<Coordinates>& places, const Pipeline& pipeline) {
    SplitNames names;
    Orders orders;
    for (const auto& [stack, layers] : collect(shards, names)) {
        orders.emplace(stack, StackOrder(stack, layers, files, places, pipeline));
    }
    require_total(orders, pipeline);
    std::unordered_map<SharedText, std::map<Index, SharedText>> numbered;  // by name, then offset
    for (const std::size_t i : indices(shards)) {
        Shard& shard = shards[i];
        if (const auto& name = names[i]) {
            const StackOrder& order = orders.find(name->stack)->second;
            const Index offset = order.offset(shard.at.pp, shard.at.vpp);
            const auto [at, is_new] = numbered[shard.name].try_emplace(offset);
            if (is_new) {
                at->second = std::string(name->stack)
                                 .append(std::to_string(name->layer + offset))
                                 .append(name->rest);
            }
            shard.name = at->second;
        }
    }
}

}  // namespace shardweld::formats::megatron
