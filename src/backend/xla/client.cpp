#include "backend/xla/client.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

namespace dtrain::backend::xla {

namespace {

PJRT_Buffer_Type type_of(Element element) {
  switch (element) {
    case Element::f32:
      return PJRT_Buffer_Type_F32;
    case Element::bf16:
      return PJRT_Buffer_Type_BF16;
    case Element::s32:
      return PJRT_Buffer_Type_S32;
    case Element::u8:
      return PJRT_Buffer_Type_U8;
    case Element::i1:
      return PJRT_Buffer_Type_PRED;
  }
  throw std::logic_error("an element without a type");
}

[[noreturn]] void refuse_devices(const Plugin& plugin, const std::string& why) {
  const bool tpu = plugin.file().filename().string().find("tpu") != std::string::npos;
  throw environment_error(
      fmt::format("the PJRT plugin {} finds no device here: {}", plugin.file().string(), why),
      tpu ? "run on a TPU machine (and let no other process hold the TPU); for the processor give "
            "--pjrt-plugin "
            "an XLA CPU plugin (docs/tpu.md)"
          : "see that the accelerator and its driver work, or give --pjrt-plugin another plugin "
            "(docs/tpu.md)");
}

PJRT_Client* create(const Plugin& plugin, int cpu_devices) {
  constexpr std::string_view name = "cpu_device_count";
  auto option = arguments<PJRT_NamedValue>(PJRT_NamedValue_STRUCT_SIZE);
  option.name = name.data();
  option.name_size = name.size();
  option.type = PJRT_NamedValue_kInt64;
  option.int64_value = cpu_devices;
  option.value_size = 1;
  auto call = arguments<PJRT_Client_Create_Args>(PJRT_Client_Create_Args_STRUCT_SIZE);
  if (cpu_devices > 0) {
    call.create_options = &option;
    call.num_options = 1;
  }
  const std::string problem = plugin.take_message(plugin.api().PJRT_Client_Create(&call));
  if (!problem.empty()) refuse_devices(plugin, problem);
  return call.client;
}

void put_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  bytes += static_cast<char>(value);
}

void put_number(std::string& message, int field, std::int64_t value) {
  put_varint(message, static_cast<std::uint64_t>(field) << 3);
  put_varint(message, static_cast<std::uint64_t>(value));
}

void put_message(std::string& message, int field, const std::string& inner) {
  put_varint(message, static_cast<std::uint64_t>(field) << 3 | 2);
  put_varint(message, inner.size());
  message += inner;
}

}  // namespace

// CompileOptionsProto { executable_build_options = 3 { device_ordinal = 1, num_replicas = 4, num_partitions =
// 5, device_assignment = 9 { replica_count = 1, computation_count = 2, computation_devices = 3 { ids = 1 } }
// }, env_option_overrides = 7 { key = 1, value = 2 { bool = 2 } } }
std::string compile_options(int replicas, std::span<const std::int64_t> device_ids,
                            std::span<const std::string> off) {
  std::string computation;
  for (const std::int64_t id : device_ids) put_number(computation, 1, id);
  std::string assignment;
  put_number(assignment, 1, replicas);
  put_number(assignment, 2, 1);
  put_message(assignment, 3, computation);
  std::string build;
  put_number(build, 1, -1);
  put_number(build, 4, replicas);
  put_number(build, 5, 1);
  put_message(build, 9, assignment);
  std::string options;
  put_message(options, 3, build);
  for (const std::string& name : off) {
    std::string no;
    put_number(no, 2, 0);
    std::string entry;
    put_message(entry, 1, name);
    put_message(entry, 2, no);
    put_message(options, 7, entry);
  }
  return options;
}

Executable::Executable(std::shared_ptr<const Plugin> plugin, PJRT_LoadedExecutable* executable, int replicas)
    : plugin_(std::move(plugin)), executable_(own(*plugin_, executable)), replicas_(replicas) {}

std::vector<std::vector<Buffer>> Executable::run(const std::vector<std::vector<PJRT_Buffer*>>& given,
                                                 std::size_t results,
                                                 const std::shared_ptr<Completion>& completion) const {
  const auto devices = static_cast<std::size_t>(replicas_);
  std::vector<PJRT_Buffer* const*> inputs;
  for (const auto& list : given) inputs.push_back(list.data());
  std::vector<std::vector<PJRT_Buffer*>> raw(devices, std::vector<PJRT_Buffer*>(results));
  std::vector<PJRT_Buffer**> outputs;
  for (auto& list : raw) outputs.push_back(list.data());
  std::vector<PJRT_Event*> events(devices);

  auto options = arguments<PJRT_ExecuteOptions>(PJRT_ExecuteOptions_STRUCT_SIZE);
  auto call = arguments<PJRT_LoadedExecutable_Execute_Args>(PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE);
  call.executable = executable_.get();
  call.options = &options;
  call.argument_lists = inputs.data();
  call.num_devices = devices;
  call.num_args = given.front().size();
  call.output_lists = outputs.data();
  call.device_complete_events = events.data();
  plugin_->check(plugin_->api().PJRT_LoadedExecutable_Execute(&call), "run the program");

  std::vector<std::vector<Buffer>> owned(devices);
  for (std::size_t d = 0; d < devices; ++d) {
    for (PJRT_Buffer* buffer : raw[d]) owned[d].push_back(own(*plugin_, buffer));
  }
  for (PJRT_Event* event : events) Completion::watch(completion, *plugin_, own(*plugin_, event));
  return owned;
}

Client::Client(std::shared_ptr<const Plugin> plugin, int cpu_devices)
    : plugin_(std::move(plugin)), client_(own(*plugin_, create(*plugin_, cpu_devices))) {
  auto listed =
      arguments<PJRT_Client_AddressableDevices_Args>(PJRT_Client_AddressableDevices_Args_STRUCT_SIZE);
  listed.client = client_.get();
  plugin_->check(plugin_->api().PJRT_Client_AddressableDevices(&listed), "be listed");
  devices_.assign(listed.addressable_devices, listed.addressable_devices + listed.num_addressable_devices);
  if (devices_.empty()) refuse_devices(*plugin_, "it lists none");
  auto named = arguments<PJRT_Client_PlatformName_Args>(PJRT_Client_PlatformName_Args_STRUCT_SIZE);
  named.client = client_.get();
  plugin_->check(plugin_->api().PJRT_Client_PlatformName(&named), "name their platform");
  platform_.assign(named.platform_name, named.platform_name_size);
}

std::string Client::platform_version() const {
  auto call = arguments<PJRT_Client_PlatformVersion_Args>(PJRT_Client_PlatformVersion_Args_STRUCT_SIZE);
  call.client = client_.get();
  plugin_->check(plugin_->api().PJRT_Client_PlatformVersion(&call), "tell their version");
  const std::string text(call.platform_version, call.platform_version_size);
  return text.substr(0, text.find('\n'));
}

namespace {

PJRT_DeviceDescription* description_of(const Plugin& plugin, PJRT_Device* device) {
  auto call = arguments<PJRT_Device_GetDescription_Args>(PJRT_Device_GetDescription_Args_STRUCT_SIZE);
  call.device = device;
  plugin.check(plugin.api().PJRT_Device_GetDescription(&call), "be described");
  return call.device_description;
}

std::int64_t id_of(const Plugin& plugin, PJRT_Device* device) {
  auto call = arguments<PJRT_DeviceDescription_Id_Args>(PJRT_DeviceDescription_Id_Args_STRUCT_SIZE);
  call.device_description = description_of(plugin, device);
  plugin.check(plugin.api().PJRT_DeviceDescription_Id(&call), "tell their numbers");
  return call.id;
}

}  // namespace

std::string Client::device_kind(int device) const {
  auto call = arguments<PJRT_DeviceDescription_Kind_Args>(PJRT_DeviceDescription_Kind_Args_STRUCT_SIZE);
  call.device_description = description_of(*plugin_, devices_.at(static_cast<std::size_t>(device)));
  plugin_->check(plugin_->api().PJRT_DeviceDescription_Kind(&call), "tell their kind");
  return {call.device_kind, call.device_kind_size};
}

MemoryStats Client::memory(int device) const {
  auto call = arguments<PJRT_Device_MemoryStats_Args>(PJRT_Device_MemoryStats_Args_STRUCT_SIZE);
  call.device = devices_.at(static_cast<std::size_t>(device));
  if (!plugin_->take_message(plugin_->api().PJRT_Device_MemoryStats(&call)).empty()) return {};
  MemoryStats stats;
  stats.in_use = static_cast<std::size_t>(std::max<std::int64_t>(call.bytes_in_use, 0));
  if (call.peak_bytes_in_use_is_set && call.peak_bytes_in_use > 0) {
    stats.peak = static_cast<std::size_t>(call.peak_bytes_in_use);
  }
  if (call.bytes_limit_is_set && call.bytes_limit > 0)
    stats.limit = static_cast<std::size_t>(call.bytes_limit);
  return stats;
}

std::string Client::compile_with(const std::string& options, const std::string& text, int replicas,
                                 std::shared_ptr<const Executable>& compiled) const {
  constexpr std::string_view format = "mlir";
  auto program = arguments<PJRT_Program>(PJRT_Program_STRUCT_SIZE);
  std::string code = text;
  program.code = code.data();
  program.code_size = code.size();
  program.format = format.data();
  program.format_size = format.size();
  auto call = arguments<PJRT_Client_Compile_Args>(PJRT_Client_Compile_Args_STRUCT_SIZE);
  call.client = client_.get();
  call.program = &program;
  call.compile_options = options.data();
  call.compile_options_size = options.size();
  std::string problem = plugin_->take_message(plugin_->api().PJRT_Client_Compile(&call));
  if (problem.empty()) compiled = std::make_shared<const Executable>(plugin_, call.executable, replicas);
  return problem;
}

// XLA's CPU compiler gives some products to XNNPACK, which (in xla-cpu-pjrt 0.0.1) packs a factor when it
// first sees it and knows it by its address ever after: weights that are updated in place are not seen to
// change. A plugin that does not know the option does not know XNNPACK.
std::shared_ptr<const Executable> Client::compile(const std::string& text, int replicas) const {
  const std::lock_guard lock(mutex_);
  auto& compiled = compiled_[{text, replicas}];
  if (compiled) return compiled;
  std::vector<std::int64_t> ids;
  for (std::size_t d = 0; d < static_cast<std::size_t>(replicas); ++d) {
    ids.push_back(id_of(*plugin_, devices_.at(d)));
  }
  const std::string xnnpack = "xla_cpu_use_xnnpack";
  std::string problem = xnnpack;
  if (platform_ == "cpu") {
    problem = compile_with(compile_options(replicas, ids, {&xnnpack, 1}), text, replicas, compiled);
  }
  if (problem.find(xnnpack) != std::string::npos) {
    problem = compile_with(compile_options(replicas, ids), text, replicas, compiled);
  }
  if (problem.empty()) return compiled;
  throw run_error(
      fmt::format("{} cannot compile the program: {}", plugin_->file().filename().string(), problem),
      "try another PJRT plugin, or a newer one (docs/tpu.md)");
}

Buffer Client::upload(const void* values, const Type& type, int device) const {
  auto call =
      arguments<PJRT_Client_BufferFromHostBuffer_Args>(PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE);
  call.client = client_.get();
  call.data = values;
  call.type = type_of(type.element);
  call.dims = type.dims.data();
  call.num_dims = type.dims.size();
  call.device = devices_.at(static_cast<std::size_t>(device));
  call.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  plugin_->check(plugin_->api().PJRT_Client_BufferFromHostBuffer(&call), "take a batch");
  own(*plugin_, call.done_with_host_buffer);  // the plugin has its copy
  return own(*plugin_, call.buffer);
}

void Client::download(PJRT_Buffer* buffer, std::span<float> values,
                      const std::shared_ptr<Completion>& completion) const {
  auto call = arguments<PJRT_Buffer_ToHostBuffer_Args>(PJRT_Buffer_ToHostBuffer_Args_STRUCT_SIZE);
  call.src = buffer;
  call.dst = values.data();
  call.dst_size = values.size_bytes();
  plugin_->check(plugin_->api().PJRT_Buffer_ToHostBuffer(&call), "hand over results");
  Completion::watch(completion, *plugin_, own(*plugin_, call.event));
}

}  // namespace dtrain::backend::xla
