// A PJRT plugin that has none of what is needed; FAKE_MINOR, FAKE_INITIALIZE, FAKE_CREATE say what it lacks.

#include <pjrt_c_api.h>

#include <string_view>

struct PJRT_Error {
  std::string_view message;
};

namespace {

PJRT_Error refusal{"the fake is broken\nand says more than a line"};

PJRT_Api fill() {
  PJRT_Api api{};
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version.major_version = PJRT_API_MAJOR;
  api.pjrt_api_version.minor_version = FAKE_MINOR;
  api.PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args*) {};
  api.PJRT_Error_Message = [](PJRT_Error_Message_Args* call) {
    call->message = call->error->message.data();
    call->message_size = call->error->message.size();
  };
  api.PJRT_Error_GetCode = [](PJRT_Error_GetCode_Args* call) -> PJRT_Error* {
    call->code = PJRT_Error_Code_INTERNAL;
    return nullptr;
  };
  api.PJRT_Plugin_Initialize = [](PJRT_Plugin_Initialize_Args*) -> PJRT_Error* {
    return FAKE_INITIALIZE ? nullptr : &refusal;
  };
  api.PJRT_Client_Create = [](PJRT_Client_Create_Args*) -> PJRT_Error* {
    return FAKE_CREATE ? nullptr : &refusal;
  };
  api.PJRT_Client_Destroy = [](PJRT_Client_Destroy_Args*) -> PJRT_Error* { return nullptr; };
  api.PJRT_Client_AddressableDevices = [](PJRT_Client_AddressableDevices_Args* call) -> PJRT_Error* {
    call->num_addressable_devices = 0;
    return nullptr;
  };
  return api;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api api = fill();
  return &api;
}
