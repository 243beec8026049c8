// Elements that a checkpoint stores twice: as the module held them, and as the fp32 masters from
// which the optimizer goes on. A few of each parameter show whether the masters are this module's.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"
#include "core/shared_text.hpp"

namespace shardweld::catalogue {

/// Where elements lie one after the other.
struct ElementPlace {
    std::uint32_t file = 0;  ///< index into Catalogue::files
    DType dtype = DType::f32;
    Bytes offset = 0;  ///< of the first

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.file, self.dtype, self.offset);
    };
};

/// Some elements of one parameter, and the two places where they are stored.
struct MasterSample {
    SharedText name;  ///< of the parameter
    Index first = 0;  ///< in the row-major order of the parameter, as its rank has it
    Index count = 0;
    ElementPlace master;
    ElementPlace weight;

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.name, self.first, self.count, self.master, self.weight);
    };
};

/// All samples of a checkpoint, and the words for a difference between the two.
struct MasterSamples {
    std::vector<MasterSample> all = {};
    std::vector<std::string> without = {};  ///< parameters whose weights are nowhere else
    std::string doubt = {};                 ///< what is known to make masters others; "": nothing
    std::string remedy = {};                ///< what to do with masters of others
};

}  // namespace shardweld::catalogue
