import ControlKit
import Glibc

let ending = FirstProcess.ending {
  ControlKit.run(arguments: Console.processArguments(), console: .system())
}
switch ending {
case .code(let code): exit(code)
case .signal(let number): die(of: number)
}
