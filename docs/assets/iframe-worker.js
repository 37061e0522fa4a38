// Search from the disk: browsers start no Worker for pages of file://, so there the worker's script runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.onmessage = this.onerror = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.tell("message", { data });
      inside.importScripts = (...addresses) => Promise.all(addresses.map((other) => this.load(other)));
      this.ready = this.load(address).catch((error) => this.tell("error", { data: String(error) }));
    }
    load(address) {
      return new Promise((resolve, reject) => {
        const script = this.frame.contentDocument.createElement("script");
        script.src = new URL(address, location.href).href;
        script.onload = resolve;
        script.onerror = () => reject(new Error(`${script.src} cannot be loaded`));
        this.frame.contentDocument.body.append(script);
      });
    }
    tell(kind, content) {
      const event = new MessageEvent(kind, content);
      if (typeof this[`on${kind}`] === "function") this[`on${kind}`](event);
      this.dispatchEvent(event);
    }
    postMessage(data) {
      this.ready.then(() => {
        const inside = this.frame.contentWindow;
        inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      });
    }
    terminate() {
      this.frame.remove();
    }
  };
}
