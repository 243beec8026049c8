#include "shard_group.hpp"

#include "catalogue/catalogue.hpp"

namespace shardweld::plan {

using models::JoinStep;

Index group_size(const catalogue::Catalogue& catalogue, JoinStep::Group group) {
    const char* const name = group == JoinStep::Group::tp    ? "tp"
                             : group == JoinStep::Group::etp ? "etp"
                             : group == JoinStep::Group::ep  ? "ep"
                                                             : "fsdp";
    const auto found = catalogue.facts.find(name);
    return found == catalogue.facts.end() ? 1 : found->second;
}

int rank_in(const catalogue::Shard& shard, JoinStep::Group group) {
    switch (group) {
        case JoinStep::Group::tp:
            return shard.at.tp;
        case JoinStep::Group::etp:
            return shard.at.etp;
        case JoinStep::Group::ep:
            return shard.at.ep;
        case JoinStep::Group::fsdp:
            return shard.at.fsdp;
    }
    return 0;
}

std::string_view group_name(JoinStep::Group group) {
    switch (group) {
        case JoinStep::Group::tp:
            return "tensor-parallel";
        case JoinStep::Group::etp:
            return "expert-tensor-parallel";
        case JoinStep::Group::ep:
            return "expert-parallel";
        case JoinStep::Group::fsdp:
            return "data-parallel";
    }
    return "";
}

std::string place_of(const catalogue::Shard& shard, const catalogue::Catalogue& catalogue) {
    return "file " + catalogue.files[shard.piece.file].path;
}

std::vector<Index> full_shape(const ShardGroup& group, const Model& model) {
    return layout::BoundLayout::bind(
               group.line->layout,
               [&](const std::string& axis) { return model.symbols->value(axis, group.captures); })
        .shape();
}

}  // namespace shardweld::plan
