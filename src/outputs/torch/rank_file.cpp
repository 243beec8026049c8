#include "rank_file.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "dtensor.hpp"

namespace shardweld::outputs::torch {

namespace {

/// A dictionary of the pickle, or what stands in one.
struct Node {
    std::string key;
    std::vector<Node> children;
    std::map<std::string, std::size_t> at;  ///< children by key
    std::optional<std::size_t> tensor;      ///< of the file's
    const PlainValue* value = nullptr;

    Node& child(const std::string& name) {
        const auto [found, is_new] = at.try_emplace(name, children.size());
        if (is_new) {
            children.emplace_back().key = name;
        }
        return children[found->second];
    }
    [[nodiscard]] bool holds_tensors() const {
        return std::ranges::any_of(children,
                                   [](const Node& one) { return one.tensor.has_value(); });
    }
};

void add_values(Node& node, const PlainValue& value) {
    for (const auto& [key, entry] : value.entries) {
        Node& child = node.child(key);
        if (entry.kind == PlainKind::dictionary) {
            add_values(child, entry);
        } else {
            child.value = &entry;
        }
    }
}

Node dictionaries_of(const TrainingSave& save, const TorchRankFile& file,
                     const OutputTensors& tensors) {
    Node top;
    if (auto* const found = find_value(save.beside, file.name)) {
        add_values(top, *found);
    }
    for (const std::size_t i : indices(file.tensors)) {
        Node* node = &top;
        for (const std::string& key : save.tensors[file.tensors[i]].path) {
            node = &node->child(key);
        }
        const bool is_file = node == &top && file.tensors.size() == 1;
        if ((node == &top && !is_file) || node->tensor || node->value != nullptr ||
            !node->children.empty()) {
            throw Error(ErrorCode::internal, tensors[file.tensors[i]].name.text() +
                                                 " has no place of its own in " + file.name);
        }
        node->tensor = i;
    }
    return top;
}

class RankPickle {
  public:
    RankPickle(const TrainingSave& save, const TorchRankFile& file, const OutputTensors& tensors)
        : save_(save), file_(file), tensors_(tensors) {}

    TorchPickle written(const Node& top) && {
        put_node(top);
        return std::move(out_);
    }

  private:
    void put_node(const Node& node) {
        if (node.tensor) {
            put_tensor_of(*node.tensor);
        } else if (node.value != nullptr) {
            put_value(out_.pickle, *node.value);
        } else {
            put_dictionary(node);
        }
    }

    void put_dictionary(const Node& node) {
        if (node.holds_tensors()) {
            put_ordered_dict(out_.pickle);
        } else {
            out_.pickle.op(PickleOp::empty_dict);
        }
        out_.pickle.op(PickleOp::mark);
        const bool is_numbered = !save_.numbered.empty() && node.key == save_.numbered;
        for (const Node& child : node.children) {
            if (const auto number = is_numbered ? parse_index(child.key) : std::nullopt) {
                out_.pickle.integer(*number);
            } else {
                out_.pickle.text(child.key);
            }
            put_node(child);
        }
        out_.pickle.op(PickleOp::setitems);
    }

    void put_tensor_of(std::size_t at) {
        const std::uint32_t i = file_.tensors[at];
        const OutputTensor& tensor = tensors_[i];
        const TrainingTensor& place = save_.tensors[i];
        const auto put_local = [&] {
            out_.add_tensor(tensor.dtype, tensor.shape, {tensor.bytes(), i});
        };
        if (save_.mesh.empty() || place.is_plain || place.whole.empty()) {
            put_local();
            return;
        }
        const auto put_ranks = [&](const std::vector<Index>& shape, std::string content) {
            out_.add_tensor(DType::i32, shape, {content.size(), std::nullopt, std::move(content)});
        };
        put_dtensor(out_.pickle, tensor.dtype, place.whole, save_.mesh.front(), file_.rank,
                    {put_local, put_ranks});
    }

    const TrainingSave& save_;
    const TorchRankFile& file_;
    const OutputTensors& tensors_;
    TorchPickle out_;
};

void put_list(PickleWriter& out, const PlainValue& value) {
    out.op(PickleOp::empty_list).op(PickleOp::mark);
    for (const PlainValue& item : value.items) {
        put_value(out, item);
    }
    out.op(PickleOp::appends);
}

void put_numbered(PickleWriter& out, const PlainValue& value) {
    out.begin_dictionary();
    for (const std::size_t i : indices(value.items)) {
        put_value(out.integer(static_cast<std::int64_t>(i)), value.items[i]);
    }
    out.op(PickleOp::setitems);
}

void put_entries(PickleWriter& out, const PlainValue& value) {
    out.begin_dictionary();
    for (const auto& [key, entry] : value.entries) {
        put_value(out.text(key), entry);
    }
    out.op(PickleOp::setitems);
}

}  // namespace

void put_value(PickleWriter& out, const PlainValue& value) {
    switch (value.kind) {
        case PlainKind::none:
            out.none();
            break;
        case PlainKind::boolean:
            out.boolean(value.integer != 0);
            break;
        case PlainKind::integer:
            out.integer(value.integer);
            break;
        case PlainKind::real:
            out.real(value.real);
            break;
        case PlainKind::text:
            out.text(value.text);
            break;
        case PlainKind::list:
            put_list(out, value);
            break;
        case PlainKind::dictionary:
            put_entries(out, value);
            break;
        case PlainKind::numbered:
            put_numbered(out, value);
            break;
    }
}

Archive rank_archive(const TrainingSave& save, const TorchRankFile& file,
                     const OutputTensors& tensors) {
    return {archive_name(file.name),
            RankPickle(save, file, tensors).written(dictionaries_of(save, file, tensors))};
}

bool RankArchives::is_as_last(const TorchRankFile& file, const std::string& beside) const {
    if (!last_ || beside != beside_ ||
        archive_name(file.name).size() != archive_name(last_->name).size()) {
        return false;
    }
    if (!save_.mesh.empty() &&
        place_size(save_.mesh.front(), file.rank) != place_size(save_.mesh.front(), last_->rank)) {
        return false;
    }
    const auto is_alike = [&](std::uint32_t a, std::uint32_t b) {
        return tensors_[a].dtype == tensors_[b].dtype && tensors_[a].shape == tensors_[b].shape &&
               save_.tensors[a].path == save_.tensors[b].path;
    };
    return std::ranges::equal(file.tensors, last_->tensors, is_alike);
}

void RankArchives::lay_out(const TorchRankFile& file) {
    const Archive archive = rank_archive(save_, file, tensors_);
    std::unordered_map<std::uint32_t, std::size_t> places;
    for (const std::size_t at : indices(file.tensors)) {
        places.emplace(file.tensors[at], at);
    }
    offsets_.clear();
    archive.each_tensor([&](std::uint32_t tensor, Bytes offset) {
        offsets_.emplace_back(places.at(tensor), offset);
    });
    size_ = archive.size();
    last_ = file;
}

Bytes RankArchives::each_tensor(const TorchRankFile& file,
                                const std::function<void(std::uint32_t, Bytes)>& visit) {
    PickleWriter beside{2};
    if (auto* const found = find_value(save_.beside, file.name)) {
        put_value(beside, *found);
    }
    std::string text = beside.finish();
    if (!is_as_last(file, text)) {
        lay_out(file);
        beside_ = std::move(text);
    }
    for (const auto& [at, offset] : offsets_) {
        visit(file.tensors[at], offset);
    }
    return size_;
}

}  // namespace shardweld::outputs::torch
