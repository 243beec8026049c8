#include <algorithm>

#include "outputs/format.hpp"

#include "header.hpp"

namespace shardweld::outputs {

namespace {

class Safetensors final : public OutputFormat {
  public:
    [[nodiscard]] std::string_view name() const override { return "safetensors"; }
    [[nodiscard]] std::vector<std::string_view> endings() const override {
        return {".safetensors"};
    }
    [[nodiscard]] bool takes_adapter() const override { return true; }

    [[nodiscard]] Placement place(const std::vector<OutputTensor>& tensors,
                                  Bytes max_shard_size) const override {
        std::ranges::for_each(tensors,
                              [](const OutputTensor& tensor) { require_header_name(tensor.name); });
        Placement placement = pack(tensors, max_shard_size, endings().front());
        placement.format = this;
        for (PlacedFile& file : placement.files) {
            file.header = header_of(tensors, file.tensors);
            file.size = file.header.size();
            put_in_order(placement, file, tensors);
        }
        return placement;
    }
};

}  // namespace

const OutputFormat& safetensors_format() {
    static const Safetensors format;
    return format;
}

Placement place_in_one_file(const std::vector<OutputTensor>& tensors,
                            const std::string& file_name) {
    Placement placement = safetensors_format().place(tensors, ~Bytes{0});
    placement.files.front().name = file_name;
    return placement;
}

}  // namespace shardweld::outputs
