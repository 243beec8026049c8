#include "subclass.hpp"

#include "formats/containers/torch_calls.hpp"
#include "shardweld/error.hpp"

#include "short_list.hpp"

namespace shardweld::formats::fsdp {

namespace {

constexpr int kMostWraps = 16;
constexpr std::size_t kFewestArguments = 8;  // newer versions append some

const PickleValue& without_parameter(const PickleValue& value) {
    const PickleValue* inner = &value;
    for (int i = 0; i < kMostWraps; ++i) {
        const PickleValue* const function = inner->callee();
        if (function == nullptr || !is_parameter_call(function->class_name()) ||
            inner->arguments().empty()) {
            break;
        }
        inner = inner->arguments().front();
    }
    return *inner;
}

}  // namespace

std::optional<Subclass> subclass_of(const PickleValue& value) {
    const PickleValue& call = without_parameter(value);
    const PickleValue* const function = call.callee();
    const auto arguments = call.arguments();  // function, type, its arguments, state
    if (function == nullptr || !is_subclass_call(function->class_name()) || arguments.size() < 3 ||
        arguments[0]->class_name() != "torch._utils _rebuild_wrapper_subclass") {
        return std::nullopt;
    }
    const auto made_of = arguments[2]->elements();
    if (arguments.size() != 4 || made_of.size() < kFewestArguments) {
        throw Error(ErrorCode::corrupt, "a tensor subclass is pickled with " +
                                            std::to_string(arguments.size()) + " and " +
                                            std::to_string(made_of.size()) +
                                            " arguments, expected 4 and at least 8");
    }
    return Subclass{arguments[1], made_of[1], short_counts(*made_of[2], "a tensor's global shape"),
                    arguments[3]};
}

}  // namespace shardweld::formats::fsdp
